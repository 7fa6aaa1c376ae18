n=$(printf 'a\033[31m\007\177b\t')
echo old > "./$n"
echo gone > "./$n-gone"
mkdir "./$n-d"
echo old > "./$n-d/f"
