ln -s f x
