mv old to
