echo one > f
