touch -r f stamp
echo bbbb > f
touch -r stamp f
rm stamp
