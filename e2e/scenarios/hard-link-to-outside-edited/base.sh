echo one > ../outside-$(basename "$PWD")
ln ../outside-$(basename "$PWD") f
