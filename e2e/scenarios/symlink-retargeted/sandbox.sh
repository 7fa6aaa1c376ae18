ln -sfn g link
