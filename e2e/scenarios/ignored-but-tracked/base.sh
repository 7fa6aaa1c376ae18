git init -q .
mkdir target
echo f > target/f
git add -f target/f
echo /target/ > .gitignore
