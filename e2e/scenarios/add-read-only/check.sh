chmod u+w d # or the ordinary user could not clean up
