setfattr -n user.note -v sandbox f
