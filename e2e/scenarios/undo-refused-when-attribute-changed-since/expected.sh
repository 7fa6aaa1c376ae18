setfattr -n user.note -v n f
