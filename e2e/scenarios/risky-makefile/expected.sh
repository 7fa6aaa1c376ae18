printf "all:\n\techo hi\n" > Makefile
