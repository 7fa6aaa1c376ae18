n=$(printf %0250d 0)
for i in 1 2 3 4 5 6 7 8 9 10 11 12; do mkdir $n; cd $n; done
echo deep > f
