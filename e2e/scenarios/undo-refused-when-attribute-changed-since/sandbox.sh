echo F > f
