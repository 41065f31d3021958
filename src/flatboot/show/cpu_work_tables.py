"""What CPU bring-up costs part by part: tables and a plot of ``flatboot.analysis.cpu_work``."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from rich.table import Table

from flatboot.analysis.cpu_work import BootParts, Part, growth
from flatboot.record import spans
from flatboot.show import plot
from flatboot.show.plot import Curve
from flatboot.show.report_tables import add, table

#: A part is shown if it makes up the first share of what one more CPU costs at the upper end, or
#: grew from the lower end by the second.
SHARE, SHARE_GROWN = 0.005, 0.0005
#: How far two curves may end apart, as a share, and be drawn as one.
DRAWN_ALIKE = 0.2
#: From this ratio of the costs of one more CPU on, a part grows faster than the CPUs.
GROWS = 1.05
_OTHERS, _EACH, _ALL = "all others", "all that is done for each CPU", "all"


def work_table(kernels: Mapping[str, Sequence[BootParts]]) -> Table:
    """Return each part that CPUs make dearer, what grows fastest first; then all of them."""
    ends = [
        _same([f"{of[at].cpus} to {of[at + 1].cpus}" for of in kernels.values() if len(of) > 1])
        for at in (0, -2)
    ]
    made = table(
        f"CPU bring-up on {_same([str(of[-1].cpus) for of in kernels.values()])} CPUs:"
        " instructions",
        ["step", "function", "what", *(["kernel"] if len(kernels) > 1 else [])],
        ["total", "waiting", "working", "per CPU", *(f"one more, {end}" for end in ends), "ratio"],
    )
    made.caption = (
        "working: as if one CPU did all of it; per CPU: of that; one more: the work that one more"
        " CPU is, between those numbers of CPUs; ratio: of the second to the first; all that is"
        " done for each CPU: callbacks, bringing up, new CPU; all: without firmware and the tracer"
    )
    parts = {part for of in kernels.values() for boot in of for part in boot.costs}
    shown = _shown(kernels, parts)
    largest = [of[-1] for of in kernels.values()]
    for part in shown:
        _add(made, kernels, (_step(part, largest), part.function, part.kind), [part])
    rest = parts - set(shown)
    if rest:
        _add(made, kernels, ("", _OTHERS, ""), rest)
    made.add_section()
    each = spans.table().each_cpu
    _add(made, kernels, ("", _EACH, ""), {part for part in parts if part.kind in each})
    _add(made, kernels, ("", _ALL, ""), parts)
    return made


def difference(two: Mapping[str, BootParts], title: str, most: int) -> Table:
    """Return the *most* parts whose work differs most between *two* boots; all others; and all."""
    (first, second), names = two.values(), list(two)
    parts = {*first.costs, *second.costs}

    def grown(part: Part) -> float:
        return second.together([part]).working - first.together([part]).working

    ordered = sorted(parts, key=lambda part: (-grown(part), part))
    made = table(title, ["step", "function", "what"], [*names, "difference"])
    rows = [
        ((_step(part, [first, second]), part.function, part.kind), [part])
        for part in ordered[:most]
    ]
    rows.append((("", _OTHERS, ""), ordered[most:]))
    rows.append((("", _ALL, ""), ordered))
    for cells, listed in rows:
        works = [boot.together(listed).working for boot in (first, second)]
        figures = [f"{work:,.0f}" for work in (*works, works[1] - works[0])]
        add(made, *cells, *figures)
    return made


def draw(kernels: Mapping[str, Sequence[BootParts]], path: Path, most: int) -> None:
    """Draw the work per CPU of the *most* parts that grow most beyond the number of CPUs.

    They are those of the first kernel; others have a curve of their own where it is another one.
    """
    curves = []
    for part in _growing(next(iter(kernels.values())), most):
        alike: list[tuple[list[str], Curve]] = []
        for name, of in kernels.items():
            costs = [boot.together([part]).working / boot.cpus / 1e3 for boot in of]
            curve = Curve(part.function, [boot.cpus for boot in of], costs)
            same = [names for names, other in alike if _ends_alike(curve, other)]
            if same:
                same[0].append(name)
            else:
                alike.append(([name], curve))
        for names, curve in alike:
            title = part.function
            if len(kernels) > 1:
                title = f"{' and '.join(names)}: {title}"
            curves.append(dataclasses.replace(curve, name=title))
    plot.growth(
        curves,
        path,
        title="CPU bring-up: work per CPU, exact clock",
        size="CPUs",
        written=str,
        cost="thousand instructions per CPU",
    )


def _ends_alike(one: Curve, other: Curve) -> bool:
    """Return whether two curves end alike, for all that a picture shows."""
    return abs(one.costs[-1] - other.costs[-1]) <= DRAWN_ALIKE * other.costs[-1]


def _shown(kernels: Mapping[str, Sequence[BootParts]], parts: set[Part]) -> list[Part]:
    """Return the parts that one more CPU makes notably dearer, what grows fastest first."""

    def excess(part: Part) -> float:
        return max(
            (found.high - found.low for of in kernels.values() if (found := growth(of, [part]))),
            default=0,
        )

    shown = set()
    for of in kernels.values():
        whole = growth(of, parts)
        for part in parts:
            found = growth(of, [part])
            if found is None or whole is None:
                share, grown = of[-1].share([part], parts), 0.0
            else:
                share, grown = found.high / whole.high, (found.high - found.low) / whole.high
            # What shrinks at the lower end is work that several threads share out anew.
            if share >= SHARE or (found and found.low >= 0 and grown >= SHARE_GROWN):
                shown.add(part)
    return sorted(shown, key=lambda part: (-excess(part), part))


def _growing(of: Sequence[BootParts], most: int) -> list[Part]:
    """Return the *most* parts that grow faster than CPUs, those first that grow by most."""
    found = {part: growth(of, [part]) for part in of[-1].costs}
    excess = {
        part: grown.high - grown.low
        for part, grown in found.items()
        if grown is not None and grown.ratio is not None and grown.ratio > GROWS
    }
    return sorted(excess, key=lambda part: (-excess[part], part))[:most]


def _add(
    made: Table,
    kernels: Mapping[str, Sequence[BootParts]],
    names: tuple[str, str, str],
    parts: Iterable[Part],
) -> None:
    listed = list(parts)
    # Calls lie in calls, so the totals of several do not add up.
    timed = len(listed) == 1 and listed[0].kind not in _untimed()
    for index, (kernel, of) in enumerate(kernels.items()):
        cost = of[-1].together(listed)
        found = growth(of, listed)
        figures = [
            cost.total if timed else None,
            cost.waiting if timed else None,
            cost.working,
            cost.working / of[-1].cpus,
            found.low if found else None,
            found.high if found else None,
        ]
        ratio = found.ratio if found and len(of) > 2 else None
        add(
            made,
            *(names if index == 0 else ("", "", "")),
            *([kernel] if len(kernels) > 1 else []),
            *("" if figure is None else f"{figure:,.0f}" for figure in figures),
            "" if ratio is None else f"{ratio:.2f}",
        )


def _untimed() -> set[str]:
    """Return the words for parts whose time from call to return says nothing."""
    return {*spans.table().sleeping, ""}


def _step(part: Part, of: Sequence[BootParts]) -> str:
    """Return the step of *part*; of each boot if kernels number it differently."""
    return _same([f"#{boot.steps[part]}" for boot in of if part in boot.steps])


def _same(words: Sequence[str]) -> str:
    """Return the word that all agree on, or all of them."""
    return ", ".join(dict.fromkeys(words))
