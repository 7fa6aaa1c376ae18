mv old between
mv between new
