rm -r d
mkdir d
