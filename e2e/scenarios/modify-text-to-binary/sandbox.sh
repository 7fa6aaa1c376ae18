printf 'a\000b' > f
