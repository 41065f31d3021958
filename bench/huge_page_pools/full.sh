# Fills memory with dirty page cache of a disk, then asks for so many huge pages: bash full.sh PAGES
# What is cached of a disk goes when the last one closes it.
exec 3</dev/vda
busybox dd if=/dev/zero of=/dev/vda bs=1M count=7000
/bin/grow pool hugepages-2048kB/nr_hugepages "$1"
/bin/poke show vmstat /proc/vmstat
