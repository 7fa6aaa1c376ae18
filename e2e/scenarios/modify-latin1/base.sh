printf 'caf\351\n' > f
