setfattr -x user.note f
