git init -q .
echo f > f
