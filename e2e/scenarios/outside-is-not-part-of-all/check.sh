[ ! -e ../outside ]
