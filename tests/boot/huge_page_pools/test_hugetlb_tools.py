"""libhugetlbfs and its tools, which operators use, say and do the same as on stock."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from guests import Guests, asked, assert_no_splat

from flatboot.guest import borrowed

pytestmark = pytest.mark.groups("huge-page-pools")

LIBRARY = Path("/usr/lib/x86_64-linux-gnu/libhugetlbfs.so.0")
#: Pools of boot. The tools set 2 MiB ones later, so those are all still to be built on ours.
POOLS = "hugepagesz=2M hugepages=100 hugepagesz=1G hugepages=1"

#: What operators do, one line each; what it prints, and how it ends, is compared.
COMMANDS = """
hugeadm --page-sizes-all
hugeadm --page-sizes
hugeadm --pool-list
hugeadm --create-mounts
hugeadm --list-all-mounts
hugeadm --pool-pages-min 2MB:+40
hugeadm --pool-pages-max 2MB:+60
hugeadm --pool-list
python3 /use
hugeadm --pool-list
hugectl --shm=2M python3 /use shared
hugeadm --pool-pages-min 2MB:-90
hugeadm --pool-pages-max 2MB:50
hugeadm --pool-list
python3 /use
hugeadm --pool-pages-min 1GB:0
hugeadm --pool-pages-min 2MB:0
hugeadm --pool-pages-max 2MB:0
hugeadm --pool-list
hugeadm --explain
"""

#: A program of the library's users: memory of each kind is had, written, read by a child that
#: writes to its copy, and given back. With "shared", shmget(), which hugectl has take huge pages.
USE = """
import ctypes, mmap, os, re, sys

MIB = 1 << 20
library = ctypes.CDLL("libhugetlbfs.so.0", use_errno=True)
library.get_huge_pages.restype = library.get_hugepage_region.restype = ctypes.c_void_p
library.get_huge_pages.argtypes = library.get_hugepage_region.argtypes = (
    ctypes.c_size_t, ctypes.c_ulong)
library.free_huge_pages.argtypes = library.free_hugepage_region.argtypes = (ctypes.c_void_p,)

def counts():
    pool = "/sys/kernel/mm/hugepages/hugepages-2048kB/"
    names = ("nr", "free", "resv", "surplus")
    return [int(open(f"{pool}{name}_hugepages").read()) for name in names]

def used(memory, size):
    zero = not any(memory[at] for at in range(0, size, 4096))
    for at in range(0, size, 4096):
        memory[at] = at >> 12 & 255
    child = os.fork()
    if not child:
        for at in range(0, 4 * MIB, 4096):
            memory[at] = 77
        os._exit(0)
    ended = os.waitpid(child, 0)[1]
    kept = [at for at in range(0, size, 4096) if memory[at] != at >> 12 & 255]
    return zero, ended, len(kept)

def at(address, size):
    return (ctypes.c_ubyte * size).from_address(address)

if sys.argv[1:] == ["shared"]:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.shmat.restype = ctypes.c_void_p
    libc.shmdt.argtypes = (ctypes.c_void_p,)
    size = 33 * MIB
    key = libc.shmget(0, ctypes.c_size_t(size), 0o1600)
    address = libc.shmat(key, None, 0)
    print("shared", key >= 0, used(at(address, size), size), counts())
    libc.shmdt(address)
    libc.shmctl(key, 0, None)
    print("shared, given back", counts())
    sys.exit()

print("size", library.gethugepagesize(), counts())
for name, size in (("pages", 66 * MIB), ("pages", 400 * MIB), ("region", 41 * MIB + 12345)):
    get, free = ((library.get_huge_pages, library.free_huge_pages) if name == "pages"
                 else (library.get_hugepage_region, library.free_hugepage_region))
    address = get(size, 1 if name == "pages" else 0x10000000)
    print(name, size, address is not None, counts())
    if address is not None:
        print(name, used(at(address, size), size), counts())
        free(address)
    print(name, "given back", counts())
fd = library.hugetlbfs_unlinked_fd()
if fd >= 0:
    os.ftruncate(fd, 20 * MIB)
    memory = mmap.mmap(fd, 20 * MIB)
    print("file", used(memory, 20 * MIB), counts())
    memory.close()
    os.close(fd)
print("file", fd >= 0, "given back", counts())
"""

SCRIPT = """
for folder in /sbin /usr/bin /usr/sbin; do
	busybox ln -s /bin $folder
done
busybox mkdir -p /var/lib /etc
echo root:x:0:0:root:/:/bin/sh >/etc/passwd
echo root:x:0: >/etc/group
busybox ln -s /proc/mounts /etc/mtab
while read -r command; do
	echo "\\$ $command"
	$command
	echo "ends with $?"
done </commands >/tmp/said 2>&1
"""


def said(guests: Guests, flavour: str, cmdline: str, folder: Path) -> str:
    """Return what the commands say on the kernel of *flavour*."""
    files = borrowed.files("bash", "busybox", "hugeadm", "hugectl")
    files |= borrowed.python("ctypes", "mmap", "os", "re", "sys")
    files |= borrowed.libraries(LIBRARY)
    # hugectl preloads it without the number.
    files |= {str(path).lstrip("/"): LIBRARY for path in (LIBRARY, LIBRARY.with_suffix(""))}
    for name, text in (("use", USE), ("commands", COMMANDS.lstrip()), ("script", SCRIPT)):
        files[name] = folder / name
        files[name].write_text(text)
    programs = ("bash /script", "poke show said /tmp/said")
    ask = asked(
        flavour,
        "4G",
        programs,
        cpus=2,
        nodes=2,
        config="users",
        cmdline=f"{POOLS} {cmdline}".strip(),
        clock="wall",
        files=tuple(files.items()),
    )
    # On the console "WARNING:" is also what the tools say.
    record = guests.unjudged(ask)
    assert_no_splat(record.log)
    return record.files["said"]


@pytest.mark.parametrize("hvo", ["", "hugetlb_free_vmemmap=on"])
def test_tools_and_library_do_what_they_do_on_stock(
    guests: Guests, hvo: str, tmp_path: Path
) -> None:
    total = re.compile(r"Total System Memory: (\d+) MB")
    stock = said(guests, "stock", hvo, tmp_path)
    ours = said(
        guests, "flatboot", f"deferred_init=lazy hugetlb_deferred=on {hvo}".strip(), tmp_path
    )
    shown = [total.search(text) for text in (ours, stock)]
    sizes = [int(found[1]) for found in shown if found]
    # The image of ours is larger, which may cost the last MiB.
    assert len(sizes) == 2 and 0 <= sizes[1] - sizes[0] <= 1
    assert total.sub("", ours).splitlines() == total.sub("", stock).splitlines()
    # The child writes 77 to each word, which four of 1,024 hold already.
    assert "shared True (True, 0, 1020) [140, 123, 0, 0]" in stock
    assert "pages (True, 0, 0) [140" in stock
