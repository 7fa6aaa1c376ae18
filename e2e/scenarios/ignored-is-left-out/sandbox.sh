mkdir -p target/deep
echo built > target/app
echo built > target/deep/x
echo o > src.o
echo F > f
