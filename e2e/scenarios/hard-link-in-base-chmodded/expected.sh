rm b
echo one > b
