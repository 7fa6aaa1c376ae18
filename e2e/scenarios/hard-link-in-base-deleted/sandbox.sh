rm a
