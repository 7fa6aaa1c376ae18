rm d/up
