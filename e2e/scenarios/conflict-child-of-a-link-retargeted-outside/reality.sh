ln -s /two l
