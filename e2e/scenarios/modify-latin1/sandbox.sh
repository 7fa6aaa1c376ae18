printf 'th\351\n' > f
