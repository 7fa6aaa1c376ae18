n=$(printf 'a\342\200\256txt.b')
echo old > "./$n"
echo gone > "./$n-gone"
mkdir "./$n-d"
echo old > "./$n-d/f"
