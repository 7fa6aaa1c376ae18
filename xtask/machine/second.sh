#!/bin/sh
# What runs on the disk: as much of a system as the tests need, then the tests.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 HOME=/root WHATIF_BIN=/whatif
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/pts /dev/shm
mount -t devpts -o ptmxmode=666 devpts /dev/pts
mount -t tmpfs -o mode=1777 shm /dev/shm
mount -t tmpfs -o mode=755 run /run
mount -t tmpfs -o mode=1777 tmp /tmp
mount -t cgroup2 none /sys/fs/cgroup
for module in overlay fuse loop quota_v2 xfs veth tun nf_tables nft_chain_nat nft_redir nft_ct nft_reject_inet; do modprobe "$module"; done
chmod 666 /dev/fuse
ip link set lo up
echo "MACHINE $(uname -r)"
sh /tests 2>&1
echo "ENDED $?"
sync
echo o > /proc/sysrq-trigger
sleep 60
