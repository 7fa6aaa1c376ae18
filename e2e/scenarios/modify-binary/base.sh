printf 'a\000b\377' > f
