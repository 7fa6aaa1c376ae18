rmdir d
