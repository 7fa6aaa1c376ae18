echo changed > f
chmod 000 f
