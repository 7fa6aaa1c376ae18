[ "$(cat f)" = f ]
