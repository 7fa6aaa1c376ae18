git init -q .
mkdir d
echo out > d/.gitignore
echo f > d/f
