rm x
mkdir x
echo y > x/y
