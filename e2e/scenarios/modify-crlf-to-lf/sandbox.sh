printf 'one\ntwo\n' > f
