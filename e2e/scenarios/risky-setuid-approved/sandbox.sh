chmod 4755 tool
echo F > f
