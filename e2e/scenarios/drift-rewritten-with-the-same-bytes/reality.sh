cp f g
mv g f
