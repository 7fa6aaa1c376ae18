[ "$(cat ../outside)" = one ]
