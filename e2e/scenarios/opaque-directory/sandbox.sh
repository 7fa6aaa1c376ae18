rm -r d
mkdir d
echo new > d/new
echo B > d/b
