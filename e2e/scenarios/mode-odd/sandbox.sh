chmod 640 a
chmod 400 b
chmod 511 c
