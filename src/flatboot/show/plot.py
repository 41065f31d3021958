"""Plots as SVG, made from records only."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from flatboot.common import atomic, units
from flatboot.record import phases
from flatboot.record.record import Record
from flatboot.show import tables

_COLOURS = ("#c2410c", "#1d4ed8", "#047857", "#7e22ce")
_MARKERS = ("o", "s", "D", "^")
# Inches: the height of a plot, of a line of the legend beneath it, and of a bar with its room.
_HEIGHT, _LEGEND_ROW, _BAR_HEIGHT = 5, 0.25, 0.6
#: Of the legend beneath bars.
_LEGEND_COLUMNS = 3
#: The colour of phases that have none of their own.
_OTHERS = "#a3a3a3"


@dataclass(frozen=True)
class Curve:
    """A line of a plot.

    Attributes:
        name: what it says of itself.
        sizes: of the machines: bytes of memory, or CPUs.
        costs: of the boots on them, in billions of instructions or seconds.
    """

    name: str
    sizes: Sequence[int]
    costs: Sequence[float]


@dataclass(frozen=True)
class Panel:
    """One of several plots over the same sizes.

    Attributes:
        title: what it shows.
        cost: what the costs are.
        curves: the lines, in all panels the same ones.
    """

    title: str
    cost: str
    curves: Sequence[Curve]


def cost_against_memory(records: Sequence[Record], path: Path) -> None:
    """Draw the instructions from reset to /init against the memory size, a line a kernel.

    Both axes are logarithmic, so a line that rises like memory does has slope 1 and a flat one is
    a boot that memory does not slow down. The file is the same for the same records.
    """
    curves = [
        Curve(
            name,
            [record.machine.memory_bytes for record in group],
            [record.to_init / 1e9 for record in group],
        )
        for name, group in tables.by_kernel(records).items()
    ]
    with _written(path) as figure:
        axes = figure.subplots()
        panel = Panel(
            "Boot cost against memory: one CPU, exact clock",
            "instructions from reset to /init (billions)",
            curves,
        )
        _draw(axes, panel, units.binary_size)
        axes.set_xlabel("memory of the virtual machine")
        sizes = axes.get_xticks()
        axes.set_xlim(sizes[0] / 1.4, sizes[-1] * 6)
        for curve, line in zip(curves, axes.lines, strict=True):
            axes.annotate(
                f"{curve.name}\n{curve.costs[-1]:.2f} G",
                (curve.sizes[-1], curve.costs[-1]),
                xytext=(8, 0),
                textcoords="offset points",
                va="center",
                color=line.get_color(),
            )


def growth(
    curves: Sequence[Curve],
    path: Path,
    *,
    title: str,
    size: str,
    written: Callable[[int], str],
    cost: str,
) -> None:
    """Draw costs against the size of the machine; the names of the curves stand beneath.

    Args:
        curves: the lines.
        path: the file, whose suffix says the format.
        title: what it shows.
        size: what the sizes are.
        written: writes a size.
        cost: what the costs are.
    """
    panels([Panel(title, cost, curves)], path, size=size, written=written)


def panels(shown: Sequence[Panel], path: Path, *, size: str, written: Callable[[int], str]) -> None:
    """Draw several costs against the size of the machine, one above the other.

    Args:
        shown: the plots, the topmost first.
        path: the file, whose suffix says the format.
        size: what the sizes are.
        written: writes a size.
    """
    legend = _LEGEND_ROW * len(shown[0].curves)
    with _written(path, _HEIGHT * (1 + len(shown)) / 2 + legend) as figure:
        grid = figure.subplots(len(shown), squeeze=False)[:, 0]
        for axes, panel in zip(grid, shown, strict=True):
            _draw(axes, panel, written)
        grid[-1].set_xlabel(size)
        names = grid[0].get_legend_handles_labels()
        figure.legend(*names, loc="outside lower left", frameon=False)


def boots(shown: Mapping[str, Record], path: Path, *, title: str, largest: int) -> None:
    """Draw where each boot went as a bar, one above the other, on one scale.

    Args:
        shown: boots with phases, by what they are called, the topmost first.
        path: the file, whose suffix says the format.
        title: what they are boots of.
        largest: so many of all phases, the longest ones, have a colour; the others share one.
    """
    longest = Counter[str]()
    for record in shown.values():
        longest.update(phases.by_name(record.phases))
    coloured = [name for name, _ in longest.most_common(largest)]
    colours = dict(zip(coloured, _COLOURS, strict=False))
    legend_rows = -(-(largest + 1) // _LEGEND_COLUMNS)
    with _written(path, _BAR_HEIGHT * (1 + len(shown)) + _LEGEND_ROW * legend_rows) as figure:
        axes = figure.subplots()
        for row, record in enumerate(shown.values()):
            for phase in record.phases:
                colour = colours.get(phase.name, _OTHERS)
                label = phase.name if phase.name in colours else "the rest"
                part = (phase.start / 1e9, phase.length / 1e9)
                axes.broken_barh([part], (row - 0.35, 0.7), color=colour, label=label)
            axes.annotate(
                f"{record.to_init / 1e9:.2f} G",
                (record.to_init / 1e9, row),
                xytext=(6, 0),
                textcoords="offset points",
                va="center",
            )
        axes.set_yticks(range(len(shown)), list(shown))
        axes.invert_yaxis()
        axes.set_xlim(0, max(record.to_init for record in shown.values()) / 1e9 * 1.1)
        axes.set_xlabel("instructions of all CPUs from reset (billions)")
        axes.set_title(title, loc="left")
        axes.spines[["top", "right"]].set_visible(False)
        handles, names = axes.get_legend_handles_labels()
        entries = dict(zip(names, handles, strict=True))
        order = [name for name in (*coloured, "the rest") if name in entries]
        figure.legend(
            [entries[name] for name in order],
            order,
            loc="outside lower left",
            ncols=_LEGEND_COLUMNS,
            frameon=False,
        )


@contextlib.contextmanager
def _written(path: Path, height: float = _HEIGHT) -> Iterator[Figure]:
    """Yield an empty figure and write what was drawn in it."""
    with matplotlib.rc_context({"svg.hashsalt": "flatboot", "font.family": "sans-serif"}):
        figure = Figure(figsize=(8, height), layout="constrained", facecolor="white")
        yield figure
        with atomic.new_file(path) as temporary:
            figure.savefig(temporary, format=path.suffix[1:], metadata={"Date": None})


def _draw(axes: Axes, panel: Panel, written: Callable[[int], str]) -> None:
    """Draw the curves of *panel* on logarithmic axes."""
    axes.set_facecolor("white")
    for index, curve in enumerate(panel.curves):
        axes.plot(
            curve.sizes,
            curve.costs,
            # Colours that come again come with other markers.
            marker=_MARKERS[(index + index // len(_COLOURS)) % len(_MARKERS)],
            color=_COLOURS[index % len(_COLOURS)],
            label=curve.name,
        )
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    sizes = sorted({size for curve in panel.curves for size in curve.sizes})
    axes.set_xticks(sizes, [written(size) for size in sizes])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_ylabel(panel.cost)
    axes.set_title(panel.title, loc="left")
    axes.grid(True, color="#d4d4d4", linewidth=0.5)
    axes.spines[["top", "right"]].set_visible(False)
