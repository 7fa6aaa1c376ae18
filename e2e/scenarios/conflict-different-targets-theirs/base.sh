ln -s a link
