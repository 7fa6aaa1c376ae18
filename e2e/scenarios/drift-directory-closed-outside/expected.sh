echo F > d/f
chmod 700 d
