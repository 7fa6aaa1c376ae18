echo F > f
echo x > .envrc
