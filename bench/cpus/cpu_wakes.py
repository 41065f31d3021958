"""Where the thread is that is asked as CPUs come up: on the CPU that asks, or on another.

Of the base that the published figures are of.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from cpu_bring_up import MANY_CPUS, PUBLISHED_BASE
from rich.table import Table

from flatboot.campaign import jobs
from flatboot.campaign.kept import Kept, Wanted
from flatboot.record.excerpts import Reads
from flatboot.record.record import TRACE_FILE
from flatboot.show.report_tables import add, table

CPUS = 16
EVENTS = "trace_event=sched:sched_waking,sched:sched_wakeup,initcall:* trace_buf_size=4M"
#: CPUs come up between the early initcalls and the others.
SMP_INIT = "early"
#: When, who asks, and who is asked: an initcall or what comes after those of a level, and how names
#: begin.
ASKED = (
    ("SMP init", SMP_INIT, "init", "kthreadd"),
    ("SMP init", SMP_INIT, "init", "cpuhp/"),
    ("percpu_counter_startup", "percpu_counter_startup", "init", "cpuhp/"),
    ("msr_init", "msr_init", "init", "cpuhp/"),
    ("msr_init", "msr_init", "cpuhp/", "kdevtmpfs"),
)
_EVENT = re.compile(
    r" *(?P<task>.+)-\d+ +\[(?P<cpu>\d+)\] .+: (?P<event>initcall_\w+|sched_wak\w+): "
    r"(?:comm=(?P<woken>.+) pid=(?P<pid>\d+) prio=\d+ target_cpu=(?P<target>\d+)"
    r"|level=(?P<level>\w+)|func=(?P<function>\w+).*)"
)


@dataclass(frozen=True)
class Waking:
    """Who woke whom, when, and whether both were on one CPU; `when` as ``ASKED`` has it."""

    when: str
    by: str
    woken: str
    here: bool


def wakings(trace: str) -> Counter[Waking]:
    """Return how often each thread was woken in *trace*, with the CPU that it was put on."""
    found: Counter[Waking] = Counter()
    when = level = ""
    asked: dict[str, tuple[str, str, str]] = {}
    for event in filter(None, map(_EVENT.fullmatch, trace.splitlines())):
        match event["event"]:
            case "initcall_level":
                when = level = event["level"]
            case "initcall_start":
                when = event["function"]
            case "initcall_finish":
                when = level
            case "sched_waking":
                asked[event["pid"]] = (when, event["task"], event["cpu"])
            case "sched_wakeup" if event["pid"] in asked:
                since, by, cpu = asked.pop(event["pid"])
                found[Waking(since, by, event["woken"], int(cpu) == int(event["target"]))] += 1
    return found


def _count(found: Mapping[Waking, int], when: str, by: str, woken: str, *, here: bool) -> int:
    return sum(
        count
        for waking, count in found.items()
        if (waking.when, waking.here) == (when, here)
        and waking.by.startswith(by)
        and waking.woken.startswith(woken)
    )


def wakes(kept: Kept) -> Table:
    """Return how often each is asked on the CPU that asks, and on another."""
    initcalls = [f"*initcall_*: func={when}+*" for _, when, *_ in ASKED if when != SMP_INIT]
    threads = [f"*sched_wak*: comm={name}*" for *_, name in ASKED]
    lines = ("*initcall_level*", *dict.fromkeys([*initcalls, *threads]))
    record = kept(
        Wanted(
            "cpu_wakes",
            "stock",
            "2G",
            f"{MANY_CPUS} {EVENTS}",
            cpus=CPUS,
            programs=(jobs.TRACE_PROGRAM,),
            reads=Reads(files=((TRACE_FILE, lines),)),
            base=PUBLISHED_BASE,
        )
    )
    made = table(
        f"Linux {PUBLISHED_BASE}, {CPUS} CPUs: where the thread is that is asked",
        ["when", "who asks", "who is asked"],
        ["same CPU", "another CPU"],
    )
    found = wakings(record.files[TRACE_FILE])
    names = {"init": "boot's thread", "cpuhp/": "hotplug threads"}
    for title, when, by, woken in ASKED:
        counts = [str(_count(found, when, by, woken, here=here)) for here in (True, False)]
        add(made, title, names[by], names.get(woken, woken), *counts)
    return made
