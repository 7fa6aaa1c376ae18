rm .github .vscode
