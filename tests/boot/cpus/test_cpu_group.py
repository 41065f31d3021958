"""CPUs of a group run what they may at the same time, the rest one by one, and fail alone."""

from __future__ import annotations

import re

import pytest
from cpu_guests import KNOWN_DELAY, THREADS, TRACE, WAIT, WHERE, assert_usable, given_up, many_cpus
from guests import Guests, asked

from flatboot.guest.boot_spec import BootSpec
from flatboot.record.record import Record

pytestmark = pytest.mark.groups("cpu-groups")

MODES = ["flat", "tree", "off"]
SEEN = [
    f"poke show {name} /sys/kernel/debug/cpu_group/{name}"
    for name in ("met", "alone", "serial", "serial_most")
]
#: Functions of a stack while CPUs come up and states are installed.
BRING_UP = re.compile(
    r" (cpu_group_|cpuhp_|_?cpu_up|smpboot_create|cache_|cacheinfo_|mce_|sched_cpu_)"
)
EVENTS = f"poke show events {TRACE}"
CPUS = "/sys/devices/system/cpu/"
#: What user space reads of a CPU, and a name for each.
DESCRIBED = {
    "modalias": "modalias",
    "uevent": "cpu5/uevent",
    **{
        f"{of}{cpu}": f"cpu{cpu}/topology/{of}_cpus_list"
        for of in ("core", "die", "package")
        for cpu in range(16)
    },
    **{f"cache{index}": f"cpu5/cache/index{index}/shared_cpu_list" for index in range(4)},
}


def witnessed(cmdline: str, cpus: int) -> BootSpec:
    """Return a boot of the debug kernel in which CPUs of a group meet."""
    programs = ("cpus wait", "cpus try", *SEEN)
    return many_cpus(cmdline, *programs, config="debug", cpus=cpus)


def seen(record: Record) -> dict[str, int]:
    """Return how many CPUs met, waited in vain, and were in a serial callback, all and at once."""
    return {name: int(record.files[name]) for name in ("met", "alone", "serial", "serial_most")}


@pytest.mark.parametrize("mode", ["flat", "tree"])
def test_all_cpus_of_boot_are_in_a_parallel_callback_at_once(guests: Guests, mode: str) -> None:
    """Each returns when seven are in it; of serial callbacks one runs at a time."""
    record = guests(witnessed(f"cpuhp.group={mode} cpuhp.meet=7", 8))
    assert seen(record) == {"met": 7, "alone": 0, "serial": 7, "serial_most": 1}
    assert_usable(record, 8)
    for suite in ("cpu_group", "cpu_group_param"):
        assert re.search(rf"ok \d+ {suite}\n", record.log), f"KUnit tests did not run: {suite}"


@pytest.mark.long
@pytest.mark.parametrize(
    "cmdline", ["cpuhp.group=flat cpuhp.meet=7", "cpuhp.defer=2 cpuhp.group=tree"]
)
def test_no_data_race(guests: Guests, cmdline: str) -> None:
    """Many accesses are watched, and for long; mainline has races of its own elsewhere."""
    watch = "kcsan.skip_watch=300 kcsan.udelay_task=60"
    record = guests.unjudged(many_cpus(f"{cmdline} {watch}", config="kcsan"))
    reports = re.findall(r"BUG: KCSAN: .*?={40}", record.console, re.S)
    assert [report for report in reports if BRING_UP.search(report)] == []
    assert "kcsan: enabled early" in record.log
    assert_usable(record, 8)


@pytest.mark.parametrize("mode", ["flat", "tree"])
def test_so_are_those_that_come_up_behind_boot(guests: Guests, mode: str) -> None:
    """Four in boot, four behind it."""
    record = guests(witnessed(f"cpuhp.defer=5 cpuhp.group={mode} cpuhp.meet=4", 9))
    assert seen(record) == {"met": 8, "alone": 0, "serial": 8, "serial_most": 1}


def test_one_by_one_nobody_meets(guests: Guests) -> None:
    """The first of two waits until it gives up; in boot nothing comes up as a group."""
    record = guests(witnessed("cpuhp.defer=3 cpuhp.group=off cpuhp.meet=2", 5))
    assert seen(record) == {"met": 1, "alone": 1, "serial": 2, "serial_most": 1}


def test_more_than_there_are_wait_in_vain(guests: Guests) -> None:
    record = guests(witnessed("cpuhp.meet=4", 4))
    assert seen(record) == {"met": 0, "alone": 3, "serial": 3, "serial_most": 1}
    assert_usable(record, 4)


def _waits(record: Record) -> list[list[str]]:
    """Return, group by group, the events between its begin and its end."""
    groups: list[list[str]] = []
    for name in re.findall(r": cpu_group_(\w+): ", record.files["events"]):
        if name == "begin":
            groups.append([])
        elif name == "waited":
            # States that are installed on all CPUs wait, too; they are no group.
            groups[-1].append(name) if groups and "end" not in groups[-1] else None
        else:
            groups[-1].append(name)
    return groups


@pytest.mark.parametrize(
    ("mode", "waits"),
    [("on", 2), ("flat", 1), ("tree", 2), ("off", 0), ("tree threadirqs", 1)],
)
def test_the_waker_waits_once_for_a_group(guests: Guests, mode: str, waits: int) -> None:
    """In a tree twice: until all are released, and until all are up.

    Where threads run the timers there is no tree.
    """
    trace = f"trace_event=cpu_group:* cpuhp.group={mode} cpuhp.defer=3"
    record = guests(many_cpus(trace, "cpus wait", EVENTS))
    behind_boot = [["waited"] * waits + ["end"]] * 2
    in_boot = [["waited"] * waits + ["end"]] if mode != "off" else []
    assert _waits(record) == in_boot + behind_boot


@pytest.mark.parametrize("mode", ["flat", "tree", pytest.param("off", marks=pytest.mark.long)])
@pytest.mark.parametrize(("config", "arch"), WHERE)
def test_all_come_up(guests: Guests, mode: str, config: str, arch: str) -> None:
    ask = many_cpus(f"cpuhp.group={mode}", cpus=8, nodes=2, config=config, arch=arch)
    assert_usable(guests(ask), 8)


@pytest.mark.groups("percpu")
def test_the_per_cpu_allocator_tests_itself(guests: Guests) -> None:
    record = guests(many_cpus("", "cpus try", config="debug", cpus=2))
    assert re.search(r"ok \d+ percpu\n", record.log)


@pytest.mark.groups("percpu")
def test_per_cpu_areas_follow_each_other(guests: Guests) -> None:
    """Without holes, of which memblock would have one for each possible CPU."""
    record = guests(many_cpus("", "cpus try", nodes=2, config="users"))
    sizes = r"percpu: Embedded \d+ pages/cpu s(\d+) r(\d+) d(\d+) u(\d+)"
    (found,) = re.findall(sizes, record.log)
    *parts, unit = map(int, found)
    assert sum(parts) == unit
    groups = re.findall(r"pcpu-alloc: \[(\d)\] (\S+) *$", record.log, re.MULTILINE)
    assert groups == [("0", "0-3"), ("1", "4-7")]


def test_turned_off_it_costs_nothing(guests: Guests) -> None:
    """Nor does the rest of what stock does not have."""
    costs = [
        guests(
            asked(
                flavour,
                "2G",
                clock="exact",
                cpus=16,
                cmdline=f"{KNOWN_DELAY} nolapic_timer {cmdline}",
            )
        ).to_init
        for flavour, cmdline in (("stock", ""), ("flatboot", "cpuhp.group=off"))
    ]
    assert costs[1] < 1.005 * costs[0]


@pytest.mark.parametrize("mode", MODES)
def test_threads_of_a_core(guests: Guests, mode: str) -> None:
    """The first of each core come up as a group, then the others."""
    record = guests(many_cpus(f"cpuhp.group={mode}", cpus=16, arguments=THREADS))
    assert_usable(record, 16)


@pytest.mark.groups("sched-smp")
@pytest.mark.parametrize(
    ("geometry", "cores"),
    [
        pytest.param(THREADS, 4, id="threads"),
        pytest.param(("-smp", "16,sockets=2,dies=2,cores=4,threads=1"), 8, id="dies"),
        pytest.param(("-smp", "16,sockets=16,cores=1,threads=1"), 1, id="packages"),
    ],
)
def test_cpus_are_described_as_on_stock(
    guests: Guests, geometry: tuple[str, ...], cores: int
) -> None:
    """Who shares what with whom, how many cores a package has, and the uevents of devices.

    One CPU goes down and comes up again before.
    """
    away = [f"poke write {value} {CPUS}cpu6/online {value}" for value in (0, 1)]
    shown = [f"poke show {name} {CPUS}{path}" for name, path in DESCRIBED.items()]
    seen = [
        guests(
            asked(
                flavour,
                "2G",
                (*away, *shown, "poke show cpuinfo /proc/cpuinfo"),
                clock="wall",
                cpus=16,
                cmdline=KNOWN_DELAY,
                arguments=geometry,
            )
        ).files
        for flavour in ("stock", "flatboot")
    ]
    for name in DESCRIBED:
        assert seen[0][name] == seen[1][name], name
    counted = [re.findall(r"cpu cores\s*: (\d+)", files["cpuinfo"]) for files in seen]
    assert counted == [[str(cores)] * 16] * 2


@pytest.mark.parametrize("mode", ["flat", "tree"])
def test_a_cpu_that_fails_in_boot_is_left_out_alone(guests: Guests, mode: str) -> None:
    """Where threads are made, where CPUs are woken, while online, and when made active."""
    cmdline = f"cpuhp.group={mode} cpuhp.fail=3:1,4:82,5:186,7:234"
    record = guests(many_cpus(cmdline, config="debug"))
    assert given_up(record) == dict.fromkeys([3, 4, 5, 7], -11)
    assert_usable(record, 4)


def test_cpus_that_never_answer_in_boot_share_one_time_limit(guests: Guests) -> None:
    cmdline = "cpuhp.silent=4,6,7 trace_event=cpu_group:cpu_group_end"
    record = guests(many_cpus(cmdline, *WAIT, EVENTS, config="debug"))
    assert given_up(record) == {4: -5, 6: -5, 7: -5}
    assert_usable(record, 5)
    (end,) = re.findall(r"up=(\d+) failed=(\d+) locked_ns=(\d+)", record.files["events"])
    assert end[:2] == ("4", "3")
    assert int(end[2]) < 20e9


def test_a_mode_that_there_is_not_is_named_and_changes_nothing(guests: Guests) -> None:
    values = ["junk", "", "1"]
    record = guests(many_cpus(" ".join(f"cpuhp.group={value}" for value in values)))
    named = re.findall(r"cpuhp.group=(\S*) is none of on, flat, tree, off", record.log)
    assert named == values
    assert_usable(record, 8)


@pytest.mark.parametrize(
    ("config", "seconds"),
    [
        ("users", 5),
        pytest.param("debug", 300, marks=pytest.mark.long),
        pytest.param("rt", 300, marks=pytest.mark.long),
    ],
)
def test_cpus_go_down_and_come_up_at_random(guests: Guests, config: str, seconds: int) -> None:
    """Under load; and parallel callbacks of a CPU that comes alone are what they were."""
    programs = ("cpus wait", f"cpus shuffle {seconds}", "cpus try")
    record = guests(many_cpus("cpuhp.defer=2", *programs, config=config))
    assert int(record.results["cpus.shuffled"]) > seconds
    assert record.results["cpus.refused"] == "0"
    assert_usable(record, 8)


@pytest.mark.parametrize("config", ["debug", pytest.param("rt", marks=pytest.mark.long)])
@pytest.mark.parametrize("cmdline", ["", "cpuhp.defer=2", "cpuhp.group=off"])
def test_cpus_that_are_slow_to_come_alive(guests: Guests, cmdline: str, config: str) -> None:
    """Who waits for one sleeps, and has to be woken by a timer."""
    record = guests(many_cpus(f"cpuhp.slow=1-7 {cmdline}", config=config))
    assert_usable(record, 8)
    assert "did not come up" not in record.log


@pytest.mark.long
@pytest.mark.parametrize("config", ["users", "rt"])
@pytest.mark.parametrize("part", range(4))
def test_a_hundred_boots(guests: Guests, part: int, config: str) -> None:
    """On the wall clock no two are alike."""
    ways = [
        ("cpuhp.group=flat", ()),
        ("cpuhp.group=tree", THREADS),
        ("cpuhp.defer=2 cpuhp.group=flat", THREADS),
        ("cpuhp.defer=3 cpuhp.group=tree", ()),
    ]
    cmdline, arguments = ways[part]
    cpus = 16 if arguments else 8
    for number in range(25):
        # What is asked for again is taken from the last time: make each boot a new one.
        again = f"{cmdline} flatboot.number={number}"
        record = guests(many_cpus(again, cpus=cpus, arguments=arguments, config=config))
        assert_usable(record, cpus)
