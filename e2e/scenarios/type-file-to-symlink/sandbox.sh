rm x
ln -s f x
