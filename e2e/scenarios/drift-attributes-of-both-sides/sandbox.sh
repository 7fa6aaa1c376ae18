setfattr -n user.mine -v s f
setfattr -x user.gone f
