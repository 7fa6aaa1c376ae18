mkdir d
echo f > f
