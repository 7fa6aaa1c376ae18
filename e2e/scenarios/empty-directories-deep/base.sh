mkdir -p gone/a/b/c
