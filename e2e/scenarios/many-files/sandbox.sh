for n in $(seq 2 2 150); do echo new >> f$n; done
rm f1 f3 f5
mkdir d
for n in $(seq 50); do echo $n > d/$n; done
