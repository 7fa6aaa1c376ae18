echo two > f
