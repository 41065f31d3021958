#!/usr/bin/python3
"""What a distribution's users do, timed in the guest: the best of some turns in ns, a JSON object.

It runs on Debian's Python, without anything of the laboratory. One CPU, files in memory, nothing
that waits: on QEMU's counting clock a time is a number of instructions.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

#: So many turns at least, and as many more as take so long.
TURNS, LONG_NS = 3, 4_000_000_000
#: What gcc compiles.
SOURCE = "#include <stdio.h>\n#include <stdlib.h>\n#include <sys/socket.h>\n" + "".join(
    f'int work{n}(int a)\n{{\n\treturn a * {n} ? printf("%d", a) : rand();\n}}\n'
    for n in range(200)
)
FIO = "fio --name=a --filename=/dev/ram0 --direct=1 --ioengine=psync --bs=4k --number_ios=20000"
#: Of each row: what is done once before, and what is timed.
ROWS = {
    "hackbench, processes, pipes": ("", "hackbench -p -g 2 -l 100"),
    "hackbench, threads, sockets": ("", "hackbench -T -g 2 -l 100"),
    "perf bench sched pipe": ("", "perf bench sched pipe -l 10000"),
    "perf bench syscall fork": ("", "perf bench syscall fork -l 300"),
    "perf bench syscall execve": ("", "perf bench syscall execve -l 100"),
    "gcc, 4 files": ("", "for n in 1 2 3 4; do gcc -O2 -c work.c; done"),
    "sysbench threads": ("", "sysbench threads --events=1000 --time=0 run"),
    "sysbench memory": ("", "sysbench memory --memory-total-size=512M run"),
    "sysbench fileio, tmpfs": (
        "sysbench fileio --file-num=16 --file-total-size=64M prepare",
        "sysbench fileio --file-num=16 --file-total-size=64M --file-test-mode=rndrw --time=0"
        " --events=5000 --file-fsync-freq=0 run",
    ),
    "fio, RAM disk, random reads": ("modprobe brd rd_nr=1 rd_size=262144", f"{FIO} --rw=randread"),
    "fio, RAM disk, random writes": ("", f"{FIO} --rw=randwrite"),
    "redis-benchmark, set and get": (
        "redis-server --port 7000 --save '' --daemonize yes; sleep 1",
        "redis-benchmark -p 7000 -q -n 3000 -c 4 -t set,get",
    ),
    "pgbench": (
        "chown postgres . && runuser -u postgres -- sh -c '"
        "PATH=$PATH:$(echo /usr/lib/postgresql/*/bin); initdb -D db --no-sync &&"
        ' pg_ctl -D db -w -o "-F -k $PWD" -l log start && pgbench -h $PWD -i -q postgres\'',
        "pgbench -h $PWD -U postgres -n -c 2 -t 100 postgres",
    ),
    "stress-ng fork": ("", "stress-ng --fork 1 --fork-ops 300"),
    "stress-ng mmap": ("", "stress-ng --mmap 1 --mmap-bytes 32M --mmap-ops 4"),
    "stress-ng vm": ("", "stress-ng --vm 1 --vm-bytes 64M --vm-method zero-one --vm-ops 200"),
    "256 MiB of memory, filled": ("", "python3 -c 'bytearray(256 << 20)'"),
}


def run(command: str) -> None:
    """Run *command*; end with what it said if it fails."""
    done = subprocess.run(
        command, shell=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode:
        sys.exit(f"{command}: exit status {done.returncode}: {done.stdout[-2000:]}")


def main() -> None:
    """Time each row in a folder in memory."""
    folder = Path("/dev/shm/work")
    folder.mkdir(0o755)
    os.chdir(folder)
    Path("work.c").write_text(SOURCE)
    # Debian starts them with the machine.
    run("systemctl stop postgresql redis-server")
    found = {}
    for name, (before, command) in ROWS.items():
        if before:
            run(before)
        times: list[int] = []
        while len(times) < TURNS or sum(times) < LONG_NS:
            began = time.perf_counter_ns()
            run(command)
            times.append(time.perf_counter_ns() - began)
        found[name] = min(times)
        with Path("/dev/ttyS0").open("w") as console:
            print(name, min(times), max(times), len(times), file=console)
    print(json.dumps(found))


main()
