rm -r d
mkdir -p d/e
echo a2 > d/e/a
