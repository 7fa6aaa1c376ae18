echo F > d/f
