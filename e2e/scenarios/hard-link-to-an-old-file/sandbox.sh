ln f g
