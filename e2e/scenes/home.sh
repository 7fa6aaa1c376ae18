# What `you` have at home, before a page begins.
set -e
mkdir -p Documents Pictures .ssh .config/whatif
echo 'Dear reader' > Documents/letter.txt
head -c 20000 /dev/zero > Pictures/cat.jpg
echo 'not a real key' > .ssh/id_ed25519
chmod 700 .ssh && chmod 600 .ssh/id_ed25519
git config --global user.name you
git config --global user.email you@example.com
git config --global init.defaultBranch main
set +e
