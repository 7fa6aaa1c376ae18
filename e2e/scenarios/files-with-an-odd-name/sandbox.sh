echo F > f
echo x > "it's [x]"
