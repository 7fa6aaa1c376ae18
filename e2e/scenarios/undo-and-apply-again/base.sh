ln -s m link
ln -s m other
mkdir empty
