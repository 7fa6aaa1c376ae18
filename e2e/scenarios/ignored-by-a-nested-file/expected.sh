rm d/out
