ln -s ../../other d/up
echo F > f
