chmod 600 a
