mv old new
echo more >> new
