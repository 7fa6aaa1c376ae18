[ "$(cat ../outside-project)" = one ]
