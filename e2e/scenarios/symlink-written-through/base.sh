ln -s d link
ln -s d/f direct
