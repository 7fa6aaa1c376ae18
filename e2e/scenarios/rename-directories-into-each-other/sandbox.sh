mv d t
mv e d
mv t e
