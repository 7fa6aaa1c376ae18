echo one > a
ln a b
