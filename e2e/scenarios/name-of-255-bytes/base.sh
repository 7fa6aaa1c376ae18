n=$(printf %0255d 0)
echo old > $n
mkdir d
m=$(printf %0254d 1)
echo gone > d/${m}a
echo same > d/${m}b
