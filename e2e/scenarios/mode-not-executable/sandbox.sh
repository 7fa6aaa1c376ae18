chmod 644 f
