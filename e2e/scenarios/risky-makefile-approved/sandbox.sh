printf "all:\n\ttouch owned\n" > Makefile
echo F > f
