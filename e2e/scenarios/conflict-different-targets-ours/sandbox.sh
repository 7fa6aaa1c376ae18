ln -sfn s link
echo G > g
