sed -i 's/^9/nine/' f
