#!/bin/bash
# Makes a small Debian with Debian's stock kernel, from what is installed here: kernel, initrd and disk in the current directory.
# $1 has whatif, tests and what else goes to the root directory of the disk.
set -euo pipefail
PATH=$PATH:/usr/sbin:/sbin
here=$(dirname "$0")
wanted="base-files base-passwd libc-bin dash bash coreutils util-linux mount findutils sed grep mawk tar gzip diffutils procps
    passwd login hostname attr acl libcap2-bin libpython3-stdlib python3-minimal git strace iproute2 kmod e2fsprogs fuse-overlayfs xfsprogs"
first_modules="virtio_pci virtio_blk ext4 crc32c_generic"
modules="overlay fuse loop quota_v2 xfs veth tun dummy nf_tables nft_chain_nat nft_redir nft_ct nft_reject_inet nft_masq nft_limit"

# The kernel that a user of stable has. A fresh machine knows of no packages.
apt-cache show linux-image-amd64 > /dev/null 2>&1 || apt-get update -qq
package=$(apt-cache depends linux-image-amd64 | sed -n 's/^ *Depends: //p' | head -n 1)
version=${package#linux-image-}
if [ ! -e "kernel-$version/boot/vmlinuz-$version" ]; then
    apt-get download "$package"
    dpkg-deb -x "$package"_*.deb "kernel-$version"
    rm "$package"_*.deb
    depmod -b "kernel-$version" "$version"
fi
ln -sf "kernel-$version/boot/vmlinuz-$version" kernel

# Modules with what they need.
bring() {
    local into=$1 module file
    shift
    mkdir -p "$into/lib/modules/$version"
    for module in "$@"; do
        modprobe -d "$PWD/kernel-$version" -S "$version" --show-depends "$module" | sed -n 's/^insmod \([^ ]*\).*/\1/p'
    done | sort -u | while read -r file; do
        local place=$into/lib/modules/$version/${file#"$PWD/kernel-$version/lib/modules/$version/"}
        mkdir -p "$(dirname "$place")"
        cp "$file" "$place"
    done
    cp "kernel-$version/lib/modules/$version"/modules.{builtin,builtin.modinfo,order} "$into/lib/modules/$version/"
    depmod -b "$into" "$version"
}

rm -rf first root disk
mkdir -p first/{bin,dev,proc,sys,new} root
cp /bin/busybox first/bin/
install -m 755 "$here/first.sh" first/init
bring first $first_modules
(cd first && find . | cpio --create --format=newc --quiet) > initrd

# All files of the packages and of what they need, at the places where they really lie.
packages=$(apt-cache depends --recurse --installed --no-recommends --no-suggests --no-conflicts --no-breaks --no-replaces \
    --no-enhances $wanted | grep '^[a-z0-9]' | sed 's/:.*//' | sort -u)
{
    for package in $packages; do dpkg --listfiles "$package" 2>/dev/null || true; done
    printf '%s\n' /bin /sbin /lib /lib64 /etc/passwd /etc/group /etc/ld.so.cache /etc/alternatives/awk /usr/bin/awk /usr/bin/sh
} | sed -E 's,^/(bin|sbin|lib|lib64)/,/usr/\1/,; s,^/,,' | grep -vE '^$|^\.$|^usr/share/(doc|man|locale|info|perl|gitweb)/|^(proc|sys|dev|run|tmp)/' |
    sort -u | while read -r file; do if [ -e "/$file" ] || [ -L "/$file" ]; then echo "$file"; fi; done > files
tar --directory=/ --create --no-recursion --files-from=files | tar --directory=root --extract
mkdir -p root/{dev,proc,sys,run,tmp,root,var/tmp}
chmod 1777 root/var/tmp root/tmp
bring root $modules
install -m 755 "$here/second.sh" root/machine
cp -r "$1"/. root/
mke2fs -q -t ext4 -d root disk 2500M
