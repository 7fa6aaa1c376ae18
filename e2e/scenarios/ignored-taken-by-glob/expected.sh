rm src.o
echo f > f
