echo F > f
echo F > d/f
