rm -r x
: > x
