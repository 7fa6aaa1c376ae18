echo g >> f
