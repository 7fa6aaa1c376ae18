rm x
echo x > x
