echo M > m
chmod 755 m
rm -r gone t
echo now a file > t
mkdir -p new/deep
echo b > new/deep/b
ln -sfn t link
rmdir empty
