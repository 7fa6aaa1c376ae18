mkdir -m 750 d
mkdir -m 1777 shared
echo x > d/x
