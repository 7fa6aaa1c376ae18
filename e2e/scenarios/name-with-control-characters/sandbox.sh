n=$(printf 'a\033[31m\007\177b\t')
echo new > "./$n"
rm "./$n-gone"
echo new > "./$n-new"
echo new > "./$n-d/f"
ln -s "$n" "./$n-link"
