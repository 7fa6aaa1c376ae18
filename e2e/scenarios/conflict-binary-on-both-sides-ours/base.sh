printf 'a\000b' > f
echo g > g
