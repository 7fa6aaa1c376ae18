rm .envrc
