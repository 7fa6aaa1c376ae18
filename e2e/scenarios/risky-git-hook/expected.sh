rm .git/hooks/pre-commit
