mv a t
mv b a
mv t b
