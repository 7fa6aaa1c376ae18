rm -r gone
mkdir -p new/a/b/c
