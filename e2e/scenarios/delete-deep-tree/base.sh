mkdir -p a/b/empty/er
