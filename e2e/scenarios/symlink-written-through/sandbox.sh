echo g > link/f
echo new > link/new
echo more >> direct
