rm -r d
mkdir d
echo a > d/a
echo b > b
