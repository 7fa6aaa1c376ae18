ln -s /one l
