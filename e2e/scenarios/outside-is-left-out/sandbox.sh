echo F > f
echo x > ../outside
