ln -s d x
