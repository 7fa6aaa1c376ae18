chmod 700 d
