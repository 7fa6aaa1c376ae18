ln -sfn b link
echo F > f
