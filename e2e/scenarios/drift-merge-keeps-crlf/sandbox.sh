sed -i 's/^2/two/' f
