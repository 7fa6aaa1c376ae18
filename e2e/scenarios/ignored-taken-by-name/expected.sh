rm -r target/deep target/app
rmdir target
echo f > f
