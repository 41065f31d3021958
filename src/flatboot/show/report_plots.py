"""The report's plots: SVG that stands inside a page, whose style sheet gives the colours.

Colours are CSS variables (``--ink``, ``--grid``, ``--page``, ``--series-1`` to ``--series-8``), so
one plot fits light and dark. No plot tells by colour alone: lines have markers and dashes, bars
have letters. The same data give the same text.
"""

from __future__ import annotations

import io
import re
import string
import textwrap
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from flatboot.record.record import Call, Phase

#: Writes a size or a cost on an axis.
Writer = Callable[[float], str]

_SERIES = 8
# What matplotlib draws in, and the variables that take its place.
_INK, _GRID, _PAGE = "#010101", "#020202", "#030303"
_COLOURS = [f"#0400{index:02x}" for index in range(1, _SERIES + 1)]
_VARIABLES = {
    _INK: "var(--ink)",
    _GRID: "var(--grid)",
    _PAGE: "var(--page)",
    **{colour: f"var(--series-{index})" for index, colour in enumerate(_COLOURS, 1)},
}
_COLOUR = re.compile("|".join(_VARIABLES))
_MARKERS = ("o", "s", "D", "^", "v", "P", "X", "*")
_DASHES = ("-", "--", "-.", ":")
_STYLE: dict[Any, Any] = {
    "svg.hashsalt": "flatboot",
    "svg.fonttype": "none",
    "font.size": 11,
    "text.parse_math": False,
    "text.color": _INK,
    "axes.edgecolor": _INK,
    "axes.labelcolor": _INK,
    "axes.titlesize": 11,
    "axes.axisbelow": True,
    "grid.color": _GRID,
    "grid.linewidth": 0.6,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "legend.frameon": False,
}
# Inches: the width of all plots, what a row of a legend and of bars takes.
_WIDTH = 6.0
_LEGEND_ROW = 0.24
_BAR_ROW = 0.4
# Characters that a name may take in a legend, and in each of two lines beside an axis.
_LEGEND_NAME = 52
_AXIS_NAME = 24
# Sizes on an axis that have a label, at most.
_LABELS = 7
# A part narrower than this share of the plot has no room for its letter.
_ROOM = 0.025
_SVG = "http://www.w3.org/2000/svg"
_LINK = "{http://www.w3.org/1999/xlink}href"
_REFERENCE = re.compile(r"url\(#([^)]*)\)")
_FONT_FAMILY = re.compile(r"'[^;]*sans-serif(?=;|$)")


@dataclass(frozen=True)
class PlotLine:
    """A line of a plot: its name, and its points, both coordinates above zero."""

    name: str
    x: Sequence[float]
    y: Sequence[float]


@dataclass(frozen=True)
class Bar:
    """A stacked bar: its name, and the length of each part."""

    name: str
    parts: Mapping[str, float]


def curves(
    key: str,
    lines: Sequence[PlotLine],
    *,
    x_label: str,
    y_label: str,
    x_text: Writer,
    y_text: Writer,
) -> str:
    """Return a plot of *lines* as SVG, both axes logarithmic: a line's slope is its exponent.

    Args:
        key: begins every id in the SVG; no other plot of the page has it.
        lines: what to draw.
        x_label: what the axis shows.
        y_label: what the axis shows.
        x_text: for the axis.
        y_text: for the axis.
    """
    with matplotlib.rc_context(_STYLE):
        figure = _figure(3.6 + _LEGEND_ROW * len(lines))
        axes = figure.subplots()
        for index, line in enumerate(lines):
            axes.plot(
                line.x,
                line.y,
                marker=_MARKERS[index % len(_MARKERS)],
                linestyle=_DASHES[index % len(_DASHES)],
                color=_COLOURS[index % _SERIES],
                label=_clean(line.name, _LEGEND_NAME),
            )
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.xaxis.set_major_locator(FixedLocator(_spread({x for line in lines for x in line.x})))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: x_text(value)))
        steps = _steps([y for line in lines for y in line.y])
        axes.set_ylim(steps[0], steps[-1])
        axes.yaxis.set_major_locator(FixedLocator(steps))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: y_text(value)))
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_minor_locator(NullLocator())
        axes.set_xlabel(x_label)
        axes.set_ylabel(y_label)
        axes.grid(True)
        axes.spines[["top", "right"]].set_visible(False)
        figure.legend(loc="outside upper left", handlelength=4)
        return _inline(figure, key)


def bars(
    key: str,
    panels: Mapping[str, Sequence[Bar]],
    parts: Sequence[str],
    *,
    x_label: str,
    x_text: Writer,
) -> str:
    """Return stacked bars as SVG, a panel for each machine with a scale of its own.

    Args:
        key: as in ``curves``.
        panels: the bars of each panel, by its title.
        parts: all parts in the order in which they are stacked.
        x_label: what the axes show.
        x_text: for the axes.
    """
    counts = [len(group) for group in panels.values()]
    height = 0.6 + 0.7 * len(panels) + _BAR_ROW * sum(counts)
    with matplotlib.rc_context(_STYLE):
        figure = _figure(height + _key_height(parts))
        ratios = [count + 0.3 for count in counts]
        grid = figure.subplots(len(panels), 1, squeeze=False, height_ratios=ratios)[:, 0]
        for axes, (title, group) in zip(grid, panels.items(), strict=True):
            whole = max(sum(bar.parts.values()) for bar in group)
            for row, bar in enumerate(group):
                start = 0.0
                for part in parts:
                    length = bar.parts.get(part, 0)
                    _part(axes, row, parts, part, start, length, whole)
                    start += length
            _rows(axes, [bar.name for bar in group])
            _time_axis(axes, title, x_text)
            axes.set_xlim(0, whole)
        grid[-1].set_xlabel(x_label)
        _part_key(figure, parts)
        return _inline(figure, key)


def timeline(
    key: str,
    phases: Sequence[Phase],
    calls: Sequence[Call],
    parts: Sequence[str],
    *,
    x_label: str,
    x_text: Writer,
    waits: bool = False,
) -> str:
    """Return one boot as SVG: its phases, and beneath them, on their own scale, some initcalls.

    Args:
        key: as in ``curves``.
        phases: the phases of the boot, at least one; each is one of *parts*.
        calls: the initcalls to draw, in order of time; none leaves them out.
        parts: as in ``bars``.
        x_label: what the axes show.
        x_text: for the axes.
        waits: whether *calls* are what the boot waited for, on the scale of the phases.
    """
    end = max(phase.start + phase.length for phase in phases)
    heights = [1.1, 0.5 + 0.3 * len(calls)][: 2 if calls else 1]
    with matplotlib.rc_context(_STYLE):
        figure = _figure(sum(heights) + 0.6 + _key_height(parts))
        grid = figure.subplots(len(heights), 1, squeeze=False, height_ratios=heights)[:, 0]
        for phase in phases:
            _part(grid[0], 0, parts, phase.name, phase.start, phase.length, end)
        _rows(grid[0], ["phases"])
        _time_axis(grid[0], "", x_text)
        grid[0].set_xlim(0, end)
        for row, call in enumerate(calls):
            grid[-1].barh(row, call.length, left=call.start, color=_INK, height=0.5)
        if calls:
            _rows(grid[-1], [call.function for call in calls])
            own = f"the {len(calls)} slowest initcalls, on a scale of their own"
            _time_axis(grid[-1], "what it waited for" if waits else own, x_text)
            if waits:
                grid[-1].set_xlim(0, end)
        grid[-1].set_xlabel(x_label)
        _part_key(figure, parts)
        return _inline(figure, key)


def _figure(height: float) -> Figure:
    return Figure(figsize=(_WIDTH, height), layout="constrained")


def _spread(sizes: set[float]) -> list[float]:
    """Return those of *sizes*, the ends among them, that lie far enough apart for their labels."""
    smallest, largest = min(sizes), max(sizes)
    gap = (largest / smallest) ** (1 / _LABELS)
    chosen = [smallest]
    for size in sorted(sizes - {smallest, largest}):
        if size >= gap * chosen[-1] and size * gap <= largest:
            chosen.append(size)
    return [*chosen, largest]


def _steps(costs: Sequence[float]) -> list[float]:
    """Return 1, 2, 5, 10, ... around *costs*; a flat line is not blown up to fill the plot."""
    ladder = [step * 10.0**power for power in range(-3, 20) for step in (1, 2, 5)]
    below = max(index for index, step in enumerate(ladder) if step <= max(min(costs), ladder[0]))
    above = min(index for index, step in enumerate(ladder) if step > max(costs))
    return ladder[max(below - 1, 0) : above + 1]


def _part(
    axes: Axes,
    row: int,
    parts: Sequence[str],
    part: str,
    start: float,
    length: float,
    whole: float,
) -> None:
    """Draw *part*, which is one of *parts*, from *start* on in *row*, with its letter."""
    index = parts.index(part)
    colour = _COLOURS[index % _SERIES]
    axes.barh(row, length, left=start, color=colour, edgecolor=_PAGE, linewidth=0.6, height=0.75)
    if length > _ROOM * whole:
        middle = start + length / 2
        axes.text(middle, row, _letter(index), ha="center", va="center", color=_PAGE)


def _letter(index: int) -> str:
    return string.ascii_uppercase[index % len(string.ascii_uppercase)]


def _part_key(figure: Figure, parts: Sequence[str]) -> None:
    handles = [
        Patch(
            facecolor=_COLOURS[index % _SERIES],
            label=f"{_letter(index)}  {_clean(part, _LEGEND_NAME // 2)}",
        )
        for index, part in enumerate(parts)
    ]
    figure.legend(handles=handles, loc="outside upper left", ncols=2)


def _key_height(parts: Sequence[str]) -> float:
    return _LEGEND_ROW * ((len(parts) + 1) // 2)


def _rows(axes: Axes, names: Sequence[str]) -> None:
    labels = [
        "\n".join(textwrap.wrap(_clean(name, 2 * _AXIS_NAME), _AXIS_NAME)[:2]) for name in names
    ]
    axes.set_yticks(range(len(names)), labels)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)


def _time_axis(axes: Axes, title: str, x_text: Writer) -> None:
    axes.set_title(_clean(title, _LEGEND_NAME), loc="left")
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: x_text(value)))
    axes.grid(True, axis="x")
    axes.spines[["top", "right"]].set_visible(False)


def _clean(text: str, width: int) -> str:
    """Return *text* in one line of printable characters, its middle left out beyond *width*."""
    shown = "".join(character if character.isprintable() else " " for character in text)
    if len(shown) <= width:
        return shown
    tail = width // 2
    return f"{shown[: width - tail - 1]}…{shown[-tail:]}"


def _inline(figure: Figure, key: str) -> str:
    """Return *figure* as an element that shares a page with others and takes its colours."""
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        # The page has its own fonts; matplotlib only measures with those that it knows.
        warnings.filterwarnings("ignore", "Glyph .* missing from font", UserWarning)
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    ElementTree.register_namespace("", _SVG)
    ElementTree.register_namespace("xlink", "http://www.w3.org/1999/xlink")
    root = ElementTree.fromstring(buffer.getvalue())
    for name in ("metadata", "defs"):
        found = root.find(f"{{{_SVG}}}{name}")
        # The first defs hold a style sheet that would count for all of the page.
        if found is not None and (name == "metadata" or found.find(f"{{{_SVG}}}style") is not None):
            root.remove(found)
    for size in ("width", "height"):
        del root.attrib[size]
    for element in root.iter():
        for name, value in element.attrib.items():
            element.set(name, _attribute(name, value, key))
    return ElementTree.tostring(root, encoding="unicode")


def _attribute(name: str, value: str, key: str) -> str:
    if name == "id":
        return f"{key}-{value}"
    if name == _LINK:
        return f"#{key}-{value[1:]}"
    if name == "style":
        coloured = _COLOUR.sub(lambda match: _VARIABLES[match[0]], value)
        return _FONT_FAMILY.sub("inherit", coloured)
    return _REFERENCE.sub(rf"url(#{key}-\1)", value)
