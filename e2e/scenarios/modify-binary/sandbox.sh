printf 'a\000c\376' > f
