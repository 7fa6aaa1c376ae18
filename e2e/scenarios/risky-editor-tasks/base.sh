mkdir .vscode
echo f > f
