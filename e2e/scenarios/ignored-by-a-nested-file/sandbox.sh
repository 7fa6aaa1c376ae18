echo out > d/out
echo out > out
echo F > d/f
