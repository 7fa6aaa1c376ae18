git init -q .
printf '/target/\n*.o\n' > .gitignore
echo f > f
mkdir target
echo built > target/app
