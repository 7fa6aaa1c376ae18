chmod 700 f
echo G > g
