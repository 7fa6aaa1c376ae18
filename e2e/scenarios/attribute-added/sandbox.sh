setfattr -n user.note -v hello f
