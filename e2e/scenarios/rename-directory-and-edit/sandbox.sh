mv old new
echo more >> new/b/c
rm new/a
echo d > new/d
