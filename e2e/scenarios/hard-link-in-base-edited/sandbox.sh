# Overlayfs takes the link apart, and so must we: the other name is another file inside.
echo two > a
