mkdir -p a/b
mv old a/b/new
