setfattr -n user.note -v n f
setfattr -n user.note -v n d
