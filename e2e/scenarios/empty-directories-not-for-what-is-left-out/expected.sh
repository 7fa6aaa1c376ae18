mkdir hollow
