rm .vscode/tasks.json
