[ ! -e d/y ]
