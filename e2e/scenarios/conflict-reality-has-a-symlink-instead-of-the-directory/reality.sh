mv d ../elsewhere
ln -s ../elsewhere d
