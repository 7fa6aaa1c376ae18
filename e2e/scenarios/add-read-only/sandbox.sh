mkdir d
echo x > d/x
chmod 444 d/x
chmod 555 d
