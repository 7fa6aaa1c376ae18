#!/bin/busybox sh
# What runs first: finds the disk.
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
for module in virtio_pci virtio_blk crc32c_generic ext4; do modprobe "$module"; done
until [ -e /dev/vda ]; do sleep 0.1; done
mount -t ext4 /dev/vda /new
umount /proc /sys /dev
exec switch_root /new /machine
