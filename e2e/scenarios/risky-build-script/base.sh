:
echo f > f
