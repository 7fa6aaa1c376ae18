chmod 755 f
