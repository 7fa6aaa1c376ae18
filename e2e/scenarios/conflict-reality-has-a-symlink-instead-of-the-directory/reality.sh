mv d ../elsewhere-$(basename "$PWD")
ln -s ../elsewhere-$(basename "$PWD") d
