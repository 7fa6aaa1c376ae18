mkdir d
echo one > a
ln a b
ln a d/c
