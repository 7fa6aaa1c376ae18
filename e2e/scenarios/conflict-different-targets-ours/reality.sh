ln -sfn r link
