# A link to a directory is not a directory: nothing may be written through it.
mkdir real
ln -s real link
echo x > link/x
echo F > f
