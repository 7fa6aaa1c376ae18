ln -s d link
