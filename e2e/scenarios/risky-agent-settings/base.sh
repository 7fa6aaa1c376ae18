mkdir .claude
echo f > f
