echo F > target/f
echo x > target/x
