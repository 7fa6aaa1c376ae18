ln -s nowhere link
