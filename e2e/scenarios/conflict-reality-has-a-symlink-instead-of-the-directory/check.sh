[ "$(cat ../elsewhere/f)" = f ]
[ ! -e ../elsewhere/new ]
