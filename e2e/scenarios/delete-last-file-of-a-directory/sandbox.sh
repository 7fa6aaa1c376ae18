rm d/f
