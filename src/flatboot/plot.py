"""Plots as SVG, made from records only."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from flatboot import atomic, tables, units
from flatboot.record import Record

_COLOURS = ("#c2410c", "#1d4ed8", "#047857", "#7e22ce")
_MARKERS = ("o", "s", "D", "^")


def cost_against_memory(records: Sequence[Record], path: Path) -> None:
    """Draw the instructions from reset to /init against the memory size, a line a kernel.

    Both axes are logarithmic, so a line that rises like memory does has slope 1 and a flat one is
    a boot that memory does not slow down. The file is the same for the same records.
    """
    with matplotlib.rc_context({"svg.hashsalt": "flatboot", "font.family": "sans-serif"}):
        figure = _cost_figure(records)
        with atomic.new_file(path) as temporary:
            figure.savefig(temporary, format=path.suffix[1:], metadata={"Date": None})


def _cost_figure(records: Sequence[Record]) -> Figure:
    figure = Figure(figsize=(8, 5), layout="constrained", facecolor="white")
    axes = figure.subplots()
    axes.set_facecolor("white")
    sizes = sorted({record.machine.memory_bytes for record in records})
    for index, (name, group) in enumerate(tables.by_kernel(records).items()):
        colour = _COLOURS[index % len(_COLOURS)]
        memory = [record.machine.memory_bytes for record in group]
        cost = [record.to_init / 1e9 for record in group]
        axes.plot(memory, cost, marker=_MARKERS[index % len(_MARKERS)], color=colour, label=name)
        axes.annotate(
            f"{name}\n{cost[-1]:.2f} G",
            (memory[-1], cost[-1]),
            xytext=(8, 0),
            textcoords="offset points",
            va="center",
            color=colour,
        )
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(sizes, [units.binary_size(size) for size in sizes])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_xlim(sizes[0] / 1.4, sizes[-1] * 6)
    axes.set_xlabel("memory of the virtual machine")
    axes.set_ylabel("instructions from reset to /init (billions)")
    axes.set_title("Boot cost against memory: one CPU, exact clock", loc="left")
    axes.grid(True, color="#d4d4d4", linewidth=0.5)
    axes.spines[["top", "right"]].set_visible(False)
    return figure
