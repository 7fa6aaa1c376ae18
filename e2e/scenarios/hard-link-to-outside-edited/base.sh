echo one > ../outside
ln ../outside f
