printf "all:\n\techo hi\n" > Makefile
echo f > f
