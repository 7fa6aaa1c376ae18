rm f
