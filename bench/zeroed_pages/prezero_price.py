"""What clearing free pages takes from others, and what it does to a machine in use."""

from __future__ import annotations

from pathlib import Path

from prezero import BACKED, KERNELS, MEMORY, MIB, folder
from rich.table import Table

from flatboot.campaign.kept import Kept, Wanted
from flatboot.guest import borrowed
from flatboot.guest.boot_spec import Clock
from flatboot.record.excerpts import Reads

PAGE = 4096
ENABLED = "/sys/kernel/mm/prezero/enabled"
#: CPUs of guests with a busy task on each.
BUSY = (1, 4)
#: What a machine reports that has nothing else to do.
IDLE = ("zeroed.most_ticks", "zeroed.free", "zeroed.all_free", "after.wakeups")
CPUS = (1, 2, 4, 8)
#: The kernels whose faults are compared.
FAULTING = ("stock", "prezero=on")
PAGES = {"4k": "4 KiB", "thp": "2 MiB"}
#: Memory of a guest that is used in pieces of all sizes, and how much of it, in MiB.
SCATTERED = ("6G", 3072)
#: A huge page that is not there is not made by moving others.
NO_COMPACTION = "poke write never /sys/kernel/mm/transparent_hugepage/defrag never"
#: The order of a huge page.
HUGE_ORDER = 9
MOST_ORDER = 10
#: What QEMU loads besides its libraries, by where it looks for it in a guest.
QEMU = "qemu-system-x86_64"
QEMU_FILES = {
    "lib/x86_64-linux-gnu/qemu/accel-tcg-x86_64.so": Path(
        "/usr/lib/x86_64-linux-gnu/qemu/accel-tcg-x86_64.so"
    ),
    "bios.bin": Path("/usr/share/seabios/bios-256k.bin"),
}
#: A machine that has all its memory and does not run.
QEMU_GUEST = (
    f"{QEMU} -nodefaults -no-user-config -display none -machine q35,memory-backend=m -accel tcg"
    " -bios /bios.bin -m 8G -object memory-backend-ram,id=m,size=8G,prealloc=on -S -daemonize"
)


def table(kept: Kept) -> Table:
    """Return what clearing takes from others, how long it takes, and what it does when done."""
    made = Table(title="What clearing free pages costs")
    made.add_column("measured")
    made.add_column("result", justify="right")
    for cpus in BUSY:
        programs = (
            f"zeroed touch warm thp {MIB}",
            f"zeroed busy without {cpus}",
            f"poke write on {ENABLED} 1",
            f"zeroed busy beside {cpus}",
            "zeroed wait",
            "zeroed idle after 10",
        )
        keys = ("without.busy_ticks", "beside.busy_ticks", *IDLE)
        wanted = Wanted(
            "prezero/price",
            "flatboot",
            MEMORY,
            cpus=cpus,
            programs=programs,
            reads=Reads(results=keys),
        )
        results = kept(wanted).results
        without, beside, most, free, all_free, wakeups = (int(results[key]) for key in keys)
        on = "1 CPU" if cpus == 1 else f"{cpus} CPUs"
        made.add_row(
            f"{on}: a busy task on each takes longer while there is something to clear",
            f"{(beside / without - 1) * 100:.2f}%",
        )
        made.add_row(
            f"{on}: instructions from idle to 90% of {all_free * PAGE / 2**30:.1f} GiB zeroed",
            f"{most / 1e6:,.0f} M",
        )
        made.add_row(
            f"{on}: of free memory zeroed in the end",
            f"{free / all_free * 100:.2f}%",
        )
        made.add_row(f"{on}: wake-ups in ten idle seconds after that", str(wakeups))
    return made


def faults(kept: Kept) -> Table:
    """Return the faults of threads that touch memory at once, and the longest of them."""
    made = Table(
        title="Threads that touch 4 GiB at once",
        caption=(
            "the CPUs take turns on the exact clock, so a rate is that of all of them together, and"
            " the longest fault has turns of others in it"
        ),
    )
    for title in ("pages", "CPUs"):
        made.add_column(title, justify="right")
    for kernel in FAULTING:
        made.add_column(f"faults a million instructions, {kernel}", justify="right")
    for kernel in FAULTING:
        made.add_column(f"the longest, instructions, {kernel}", justify="right")
    for way, title in PAGES.items():
        for cpus in CPUS:
            found = []
            for kernel in FAULTING:
                flavour, cmdline = KERNELS[kernel]
                programs = ("zeroed wait", f"zeroed faults {way} {way} {cpus} 4096")
                wanted = Wanted(
                    "prezero/faults",
                    flavour,
                    "6G",
                    cmdline,
                    cpus=cpus,
                    programs=programs,
                    reads=Reads(results=(f"{way}.faults", f"{way}.ticks", f"{way}.worst_ticks")),
                )
                found.append(kept(wanted).results)
            rates = (int(each[f"{way}.faults"]) / int(each[f"{way}.ticks"]) * 1e6 for each in found)
            longest = (int(each[f"{way}.worst_ticks"]) for each in found)
            made.add_row(
                title,
                str(cpus),
                *(f"{rate:,.1f}" for rate in rates),
                *(f"{ticks:,}" for ticks in longest),
            )
    return made


def guest(kept: Kept) -> Table:
    """Return what it takes to start QEMU with 8 GiB that it allocates first."""
    files = borrowed.files(QEMU) | borrowed.libraries(*QEMU_FILES.values()) | QEMU_FILES
    made = Table(
        title="Starting QEMU with 8 GiB preallocated, in a guest",
        caption="how many times less than stock",
    )
    made.add_column("kernel")
    clocks: tuple[Clock, ...] = ("exact", "wall")
    for title in ("instructions", "time"):
        made.add_column(title, justify="right")
    ticks = {}
    for kernel, (flavour, cmdline) in KERNELS.items():
        for clock in clocks:
            wanted = Wanted(
                f"{folder(kernel, clock)}/guest",
                flavour,
                MEMORY,
                cmdline,
                programs=(BACKED, "zeroed wait", f"zeroed run qemu {QEMU_GUEST}", "zeroed wait"),
                clock=clock,
                files=tuple(files.items()),
                reads=Reads(results=("qemu.ticks",)),
            )
            ticks[kernel, clock] = int(kept(wanted).results["qemu.ticks"])
        made.add_row(
            kernel, *(f"{ticks['stock', clock] / ticks[kernel, clock]:.2f}" for clock in clocks)
        )
    return made


def scattered(kept: Kept) -> Table:
    """Return how memory in use fragments, by what is left in blocks and got as huge pages."""
    memory, mib = SCATTERED
    made = Table(
        title="After 16,384 areas of up to 2 MiB came and went",
        caption="95% of the memory that is available then is asked for as huge pages",
    )
    made.add_column("kernel")
    made.add_column("unusable for huge pages", justify="right")
    made.add_column("huge pages got", justify="right")
    made.add_column("small ones instead", justify="right")
    for kernel in FAULTING:
        flavour, cmdline = KERNELS[kernel]
        programs = (NO_COMPACTION, "zeroed wait", f"zeroed scatter after {mib}")
        reads = Reads(results=("after.order_*", "after.huge", "after.small"))
        found = kept(
            Wanted("prezero/scattered", flavour, memory, cmdline, programs=programs, reads=reads)
        )
        after = {
            key.removeprefix("after."): int(value)
            for key, value in found.results.items()
            if key.startswith("after.")
        }
        blocks = {order: after[f"order_{order}"] << order for order in range(MOST_ORDER + 1)}
        small = sum(pages for order, pages in blocks.items() if order < HUGE_ORDER)
        made.add_row(
            kernel,
            f"{small / sum(blocks.values()) * 100:.2f}%",
            f"{after['huge']:,}",
            f"{after['small']:,}",
        )
    return made
