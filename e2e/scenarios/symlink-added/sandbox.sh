ln -s f link
