setfattr -n user.old -v 1 f
setfattr -n user.gone -v 1 f
