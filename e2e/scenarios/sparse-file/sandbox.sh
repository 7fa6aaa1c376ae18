truncate -s 4M sparse
printf x | dd of=sparse bs=1 seek=2M conv=notrunc status=none
