printf 'r\000b' > f
