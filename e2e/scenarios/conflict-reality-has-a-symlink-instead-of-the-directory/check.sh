[ "$(cat ../elsewhere-project/f)" = f ]
[ ! -e ../elsewhere-project/new ]
