mv readme README
