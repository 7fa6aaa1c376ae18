echo t > tool
echo f > f
