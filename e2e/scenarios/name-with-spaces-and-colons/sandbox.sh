n=' a: b '
echo new > "./$n"
rm "./$n-gone"
echo new > "./$n-new"
echo new > "./$n-d/f"
ln -s "$n" "./$n-link"
