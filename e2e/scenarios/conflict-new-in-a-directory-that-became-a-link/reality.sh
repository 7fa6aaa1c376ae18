ln -s e d
