git init -q .
printf '/target/\n*.o\n' > .gitignore
echo f > f
