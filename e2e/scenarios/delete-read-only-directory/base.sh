chmod 555 d
