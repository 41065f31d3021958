"""Memory that has to read as zero: stock, init_on_free=1, and pages zeroed ahead of time."""

from __future__ import annotations

from rich.table import Table

from flatboot.kept import Kept, Wanted

#: The kernels that are compared: their flavour and parameters.
KERNELS = {
    "stock": ("stock", ""),
    "stock init_on_free=1": ("stock", "init_on_free=1"),
    "prezero=on": ("flatboot", "prezero=on"),
}
MEMORY = "10G"
MIB = 8192
PAGE = 4096
#: How memory is got: the guest program's word for it, and what it says to people.
WAYS = {
    "4k": "touch, 4 KiB",
    "thp": "touch, 2 MiB",
    "shmem": "touch a memfd",
    "populate": "MADV_POPULATE_WRITE",
    "mlock": "mlock()",
}
#: A guest with an emulated IOMMU and a device that no driver has.
VFIO = "intel_iommu=on vfio_iommu_type1.allow_unsafe_interrupts=1"
DEVICES = ("-device", "intel-iommu,intremap=off,caching-mode=on", "-device", "edu,addr=04.0")
PINS = {"4k": "VFIO, 4 KiB", "thp": "VFIO, 2 MiB"}


def _a_page(kept: Kept, kernel: str, way: str) -> float:
    """Return the instructions a page of 4 KiB of getting 8 GiB in one *way*."""
    flavour, cmdline = KERNELS[kernel]
    programs = ("zeroed wait", f"zeroed touch {way} {way} {MIB}")
    table = f"prezero/{kernel.replace('=', '-').replace(' ', '-')}"
    found = kept(Wanted(table, flavour, MEMORY, cmdline, programs=programs)).results
    return int(found[f"{way}.ticks"]) / int(found[f"{way}.pages"])


def _pinned(kept: Kept, kernel: str, way: str) -> float:
    """Return the instructions a page of 4 KiB of mapping 8 GiB for a device."""
    flavour, cmdline = KERNELS[kernel]
    programs = ("zeroed wait", f"pin {way} {way} {MIB} 0000:00:04.0")
    table = f"prezero/{kernel.replace('=', '-').replace(' ', '-')}"
    found = kept(
        Wanted(
            table,
            flavour,
            MEMORY,
            f"{VFIO} {cmdline}".strip(),
            programs=programs,
            config="vfio",
            arguments=DEVICES,
        )
    ).results
    return int(found[f"{way}.ticks"]) / int(found[f"{way}.pages"])


def table(kept: Kept) -> Table:
    """Return instructions a page, for each way to get 8 GiB and each kernel."""
    made = Table(
        title="Instructions a page of 4 KiB to get 8 GiB of memory that reads as zero",
        caption="one CPU; in brackets how many times fewer than stock",
    )
    made.add_column("memory")
    for kernel in KERNELS:
        made.add_column(kernel, justify="right")
    for ways, measured in ((WAYS, _a_page), (PINS, _pinned)):
        for way, title in ways.items():
            costs = {kernel: measured(kept, kernel, way) for kernel in KERNELS}
            made.add_row(
                title,
                *(
                    f"{cost:,.1f}" if kernel == "stock" else f"{cost:,.1f} ({stock / cost:.2f})"
                    for stock in (costs["stock"],)
                    for kernel, cost in costs.items()
                ),
            )
    return made


def price(kept: Kept) -> Table:
    """Return what clearing takes from others, how long it takes, and what it does when done."""
    enabled = "/sys/kernel/mm/prezero/enabled"
    programs = (
        f"zeroed touch warm thp {MIB}",
        "zeroed busy without 1",
        f"poke write on {enabled} 1",
        "zeroed busy beside 1",
        "zeroed wait",
        "zeroed idle after 10",
    )
    found = kept(Wanted("prezero/price", "flatboot", MEMORY, programs=programs)).results
    without, beside = (int(found[f"{key}.busy_ticks"]) for key in ("without", "beside"))
    cleared = int(found["zeroed.free"]) * PAGE / 2**30
    made = Table(title="What clearing free pages costs, one CPU")
    made.add_column("measured")
    made.add_column("result", justify="right")
    made.add_row(
        "a busy task takes longer while there is something to clear",
        f"{(beside / without - 1) * 100:.2f}%",
    )
    made.add_row(
        f"instructions from idle to {cleared:.1f} GiB zeroed",
        f"{int(found['zeroed.wait_ticks']) / 1e6:,.0f} M",
    )
    made.add_row(
        "of free memory zeroed then",
        f"{int(found['zeroed.free']) / int(found['zeroed.all_free']) * 100:.2f}%",
    )
    made.add_row("wake-ups in ten idle seconds after that", found["after.wakeups"])
    return made
