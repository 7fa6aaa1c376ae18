setfattr -n user.note -v reality f
setfattr -n user.other -v 1 f
