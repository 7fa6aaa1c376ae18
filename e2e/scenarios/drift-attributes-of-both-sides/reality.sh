setfattr -n user.old -v 2 f
