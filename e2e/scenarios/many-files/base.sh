for n in $(seq 150); do echo $n > f$n; done
