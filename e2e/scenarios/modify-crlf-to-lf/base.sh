printf 'one\r\ntwo\r\n' > f
