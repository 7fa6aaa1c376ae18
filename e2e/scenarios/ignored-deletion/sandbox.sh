rm -r target
echo F > f
