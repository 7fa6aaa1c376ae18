mkfifo pipe
echo F > f
