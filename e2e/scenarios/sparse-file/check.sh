[ "$(stat -c %b sparse)" -lt 1000 ]
