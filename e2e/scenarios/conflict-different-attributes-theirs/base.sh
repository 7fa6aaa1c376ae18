setfattr -n user.note -v 1 f
