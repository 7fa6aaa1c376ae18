echo f > f
