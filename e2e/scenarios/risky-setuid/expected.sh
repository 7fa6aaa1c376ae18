chmod 644 tool
