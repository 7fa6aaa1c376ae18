n=$(printf %0255d 0)
echo new > $n
m=$(printf %0254d 1)
rm d/${m}a
ln -s x d/${m}c
mkdir ${m}d
echo new > d/${m}e
