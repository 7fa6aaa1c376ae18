rm -r a b
