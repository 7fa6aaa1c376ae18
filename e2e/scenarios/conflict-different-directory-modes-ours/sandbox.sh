chmod 711 d
echo G > g
