n=' a: b '
echo old > "./$n"
echo gone > "./$n-gone"
mkdir "./$n-d"
echo old > "./$n-d/f"
