mkdir vendor
git init -q vendor/lib
echo r > vendor/lib/README
echo F > f
