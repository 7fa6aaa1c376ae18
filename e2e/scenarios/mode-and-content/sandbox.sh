echo g > f
chmod 755 f
