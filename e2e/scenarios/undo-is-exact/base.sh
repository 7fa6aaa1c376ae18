ln -s m link
mkdir empty
chmod 640 gone/a
