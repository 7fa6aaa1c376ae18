mkdir -p evil/workflows
echo "on: push" > evil/workflows/ci.yml
ln -s evil .github
ln -s evil .vscode
echo F > f
