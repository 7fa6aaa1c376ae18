rm -r x
ln -s d x
