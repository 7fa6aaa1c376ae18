echo M > m
rm -r gone t empty
echo now a file > t
ln -sfn t link
rm other
echo o > other
