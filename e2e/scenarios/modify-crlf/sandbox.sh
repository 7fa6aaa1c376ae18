printf 'one\r\n2\r\n' > f
