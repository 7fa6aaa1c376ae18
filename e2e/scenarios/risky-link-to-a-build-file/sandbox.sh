ln -s Makefile log
ln Makefile notes
echo F > f
