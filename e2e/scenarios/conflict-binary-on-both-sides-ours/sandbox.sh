printf 'a\000s' > f
echo G > g
