[ "$(cat ../outside)" = x ]
