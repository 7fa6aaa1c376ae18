mkdir x hollow; ln -s /etc/passwd x/l
