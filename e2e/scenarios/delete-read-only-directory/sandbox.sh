chmod 755 d
rm -r d
