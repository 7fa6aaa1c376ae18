mv d e
mkdir d
echo b > d/b
