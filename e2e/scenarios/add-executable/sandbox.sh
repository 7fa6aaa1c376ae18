echo tool > tool
chmod 755 tool
