"""CPUs that boot leaves for later come up behind it, all of them, whatever happens meanwhile."""

from __future__ import annotations

import dataclasses
import re
import statistics

import pytest
from cpu_guests import (
    KNOWN_DELAY,
    THREADS,
    TRACE,
    WAIT,
    WHERE,
    assert_usable,
    came_up,
    cpus_of,
    given_up,
    many_cpus,
)
from guests import Guests, asked

from flatboot.guest.boot_spec import BootSpec
from flatboot.record import callbacks
from flatboot.record.record import Record

pytestmark = pytest.mark.groups("cpu-groups")


def left_by_boot(record: Record) -> set[int]:
    """Return the CPUs that boot left for later."""
    return cpus_of(re.findall(r"cpu: CPUs (\S+) come up behind boot", record.log)[0])


@pytest.mark.parametrize(
    ("cpus", "nodes", "defer", "groups"),
    [
        (8, 1, 2, 2),
        (8, 1, 1, 3),
        (8, 2, 7, 1),
        pytest.param(16, 4, 4, 2, marks=pytest.mark.long),
        (16, 16, 4, 2),
        pytest.param(16, 2, 15, 1, marks=pytest.mark.long),
    ],
)
def test_all_come_up_in_groups_that_double(
    guests: Guests, cpus: int, nodes: int, defer: int, groups: int
) -> None:
    record = guests(many_cpus(f"cpuhp.defer={defer}", cpus=cpus, nodes=nodes, clock="exact"))
    assert f"{defer} CPU" in re.findall(r"smp: Brought up .*", record.log)[0]
    assert came_up(record) == (cpus - defer, cpus - defer, groups)
    assert_usable(record, cpus)


@pytest.mark.parametrize(("config", "arch"), WHERE)
def test_on_each_architecture(guests: Guests, config: str, arch: str) -> None:
    record = guests(many_cpus("cpuhp.defer=2", config=config, arch=arch))
    assert came_up(record)[:2] == (6, 6)
    assert_usable(record, 8)


def test_those_that_boot_brings_up_are_spread_over_the_nodes(guests: Guests) -> None:
    record = guests(many_cpus("cpuhp.defer=6", cpus=16, nodes=4))
    now = set(range(16)) - left_by_boot(record)
    assert 0 in now
    by_node = [len(now & set(range(4 * node, 4 * node + 4))) for node in range(4)]
    assert sorted(by_node) == [1, 1, 2, 2]


def test_first_threads_come_before_the_others(guests: Guests) -> None:
    record = guests(many_cpus("cpuhp.defer=6", cpus=16, arguments=THREADS))
    assert {cpu for cpu in range(16) if cpu % 2} <= left_by_boot(record)
    assert_usable(record, 16)


def test_second_threads_stay_down_without_smt(guests: Guests) -> None:
    record = guests(many_cpus("cpuhp.defer=2 nosmt", cpus=16, arguments=THREADS))
    assert cpus_of(record.results["cpus.online"]) == set(range(0, 16, 2))
    assert "did not come up" not in record.log


@pytest.mark.parametrize(
    ("isolated", "defer", "up"),
    [("0-3", 2, {0, 4}), ("0", 1, {0, 1}), ("4-7", 4, {0, 1, 2, 3}), ("1-6", 3, {0, 1, 7})],
)
def test_isolated_cpus_come_last(guests: Guests, isolated: str, defer: int, up: set[int]) -> None:
    """Boot needs one that is not."""
    record = guests(many_cpus(f"cpuhp.defer={defer} isolcpus={isolated}"))
    assert set(range(8)) - left_by_boot(record) == up
    assert_usable(record, 8)


def test_isolated_cpus_come_last_behind_boot_too(guests: Guests) -> None:
    cmdline = "cpuhp.defer=2 isolcpus=2-3 trace_event=cpu_group:cpu_group_begin"
    events = f"poke show events {TRACE}"
    record = guests(many_cpus(cmdline, "cpus wait", events, config="debug"))
    begun = re.findall(r"cpu_group_begin: first=(\d+) cpus=(\d+)", record.files["events"])
    # The first of them is that of boot.
    assert begun[1:] == [("4", "2"), ("6", "2"), ("2", "2")]


@pytest.mark.parametrize(
    ("asked_for", "waits"),
    [("0-7", False), ("0,7", False), ("6-7", True), ("7", True), ("9", False)],
)
def test_a_task_may_ask_for_cpus_that_are_still_to_come(
    guests: Guests, asked_for: str, waits: bool
) -> None:
    """It is given them when they are up, and waits if it can run nowhere else.

    Each of three groups waits for others in vain, five seconds, so that the program comes before
    the last.
    """
    cmdline = "cpuhp.defer=1 cpuhp.meet=64"
    found = guests(many_cpus(cmdline, f"cpus ask {asked_for}", config="debug")).results
    there = asked_for != "9"
    assert found["cpus.asked"] == ("ok" if there else "EINVAL")
    assert (found["cpus.asked_left"] == "0") == waits
    mask = {int(cpu) for cpu in found["cpus.mask"].split(",") if cpu}
    assert mask == (cpus_of(asked_for) if there else set(range(8)))


def test_a_host_of_confidential_guests_brings_up_all_in_boot(guests: Guests) -> None:
    record = guests(many_cpus("cpuhp.defer=2 setcpuid=tdx_host_platform"))
    assert "cpu: no CPU is deferred: a TDX host needs one of each package" in record.log
    assert "behind boot" not in record.log
    assert_usable(record, 8)


@pytest.mark.long
def test_a_host_of_protected_guests_brings_up_all_in_boot(guests: Guests) -> None:
    """The hypervisor lets no CPU in that was not up when it took over."""
    record = guests(
        many_cpus(
            "cpuhp.defer=2 kvm-arm.mode=protected",
            config="protected-kvm",
            arch="arm64",
            arguments=("-machine", "virtualization=on"),
        )
    )
    assert "cpu: no CPU is deferred: protected KVM" in record.log
    assert re.search(r"kvm \[1\]: Protected [nh]VHE mode initialized", record.log)
    assert_usable(record, 8)


def test_maxcpus_counts_those_that_come_later(guests: Guests) -> None:
    record = guests(many_cpus("cpuhp.defer=2 maxcpus=5"))
    assert came_up(record)[:2] == (3, 3)
    assert_usable(record, 5)


def test_what_is_no_number_of_cpus_is_named_and_ignored(guests: Guests) -> None:
    """Nothing is deferred for all CPUs, which is asked for first, either."""
    values = ["-1", "junk", ""]
    record = guests(many_cpus(" ".join(f"cpuhp.defer={value}" for value in ["8", *values])))
    assert "behind boot" not in record.log
    assert_usable(record, 8)
    assert re.findall(r"cpuhp.defer=(\S*) is not a number of CPUs", record.log) == values


def test_without_waking_cpus_together(guests: Guests) -> None:
    record = guests(many_cpus("cpuhp.defer=2 cpuhp.parallel=0"))
    assert came_up(record)[:2] == (6, 6)
    assert_usable(record, 8)


def test_user_space_may_be_quicker(guests: Guests) -> None:
    record = guests(many_cpus("cpuhp.defer=1", "cpus raise", *WAIT))
    assert_usable(record, 8)


def test_they_go_down_and_up_again(guests: Guests) -> None:
    file = "/sys/devices/system/cpu/cpu{}/online"
    again = [
        f"poke write {cpu}to{value} {file.format(cpu)} {value}"
        for cpu in (7, 3, 5)
        for value in (0, 1)
    ]
    record = guests(many_cpus("cpuhp.defer=2", "cpus wait", *again, "cpus try"))
    written = [value for key, value in record.results.items() if key.startswith("write.")]
    assert written == ["ok"] * 6
    assert_usable(record, 8)


def test_hibernation_takes_them_down_and_up(guests: Guests) -> None:
    """One by one with tasks frozen, as suspend does: for the image, and when it is resumed."""
    programs = (
        "cpus wait",
        "poke write size /sys/block/zram0/disksize 1G",
        "swap /dev/zram0",
        "poke write kind /sys/power/disk test_resume",
        "poke write hibernate /sys/power/state disk",
        "cpus try",
    )
    record = guests(many_cpus("cpuhp.defer=2 ignore_loglevel", *programs, config="users"))
    assert record.results["write.hibernate"] == "ok"
    assert len(re.findall(r"smpboot: CPU \d is now offline", record.log)) >= 7
    assert record.log.count("CPU7 is up") >= 1
    assert_usable(record, 8)


def work(guests: Guests, cmdline: str, cpus: int) -> int:
    """Return the instructions of all CPUs to /init, without those of waiting."""
    spec = many_cpus(f"nolapic_timer {cmdline}".strip(), clock="exact", cpus=cpus)
    return int(guests(dataclasses.replace(spec, counted="init")).results["counted"])


@pytest.mark.groups("cpus-behind-boot")
def test_boot_costs_less_than_with_cpus_that_user_space_brings_up(guests: Guests) -> None:
    """What is made for each CPU is made behind boot; maxcpus= leaves it in boot."""
    deferred = work(guests, "cpuhp.defer=4", 32)
    by_hand = work(guests, "maxcpus=4", 32)
    # Of each of 28 CPUs: 392,000 instructions less.
    assert by_hand - deferred > 28 * 300_000


@pytest.mark.groups("cpus-behind-boot", "acpi", "fixes", "percpu")
def test_boot_costs_little_more_for_cpus_behind_it(guests: Guests) -> None:
    """All groups that make a CPU cheaper have their part in it."""
    few = work(guests, "", 4)
    deferred = work(guests, "cpuhp.defer=4", 32)
    # Of each of 28 CPUs: 105,000 instructions; without the other groups 423,000.
    assert deferred - few < 28 * 150_000


#: Folders that have something for each CPU, by architecture.
OF_EACH_CPU = {
    "arm64": ("/sys/devices/system", "/sys/kernel/tracing/per_cpu", "/sys/kernel/debug/sched"),
    "x86_64": (
        "/sys/devices/system",
        "/sys/kernel/tracing/per_cpu",
        "/sys/kernel/debug/sched",
        "/sys/kernel/debug/x86/topo/cpus",
        "/sys/devices/LNXSYSTM:00",
    ),
}


@pytest.mark.groups("cpus-behind-boot")
@pytest.mark.parametrize(("config", "arch"), WHERE)
def test_each_cpu_has_what_it_has_from_boot(guests: Guests, config: str, arch: str) -> None:
    """Its devices, its files in debugfs and tracefs, the ACPI object of its processor."""
    folders = OF_EACH_CPU[arch]
    lists = [f"poke list {number} {path}" for number, path in enumerate(folders)]
    at_once, later = (
        guests(many_cpus(cmdline, "cpus wait", *lists, config=config, arch=arch))
        for cmdline in ("", "cpuhp.defer=2")
    )
    assert came_up(later)[:2] == (6, 6)
    for number, path in enumerate(folders):
        found = set(later.files[str(number)].splitlines())
        assert any("7" in name.removeprefix(path) for name in found), path
        assert found == set(at_once.files[str(number)].splitlines())


@pytest.mark.groups("cpus-behind-boot")
def test_each_cpu_idles_in_a_thread_of_its_own(guests: Guests) -> None:
    """Before it comes up it shows that of the boot CPU."""
    programs = (*WAIT, f"poke show events {TRACE}")
    record = guests(many_cpus("cpuhp.defer=2 trace_event=sched:sched_switch", *programs))
    switches = re.findall(r"\[(\d+)\].*prev_comm=swapper/(\d+) prev_pid=0 ", record.files["events"])
    assert {int(cpu) for cpu, _ in switches} == set(range(8))
    assert all(int(cpu) == int(thread) for cpu, thread in switches)


@pytest.mark.parametrize("config", ["users", pytest.param("mitigations", marks=pytest.mark.long)])
def test_each_cpu_answers_a_nonmaskable_interrupt(guests: Guests, config: str) -> None:
    """Its stacks for exceptions are mapped when it first comes up."""
    online = "/sys/devices/system/cpu/cpu5/online"
    programs = (
        *("cpus wait", f"poke write down {online} 0", f"poke write up {online} 1"),
        "poke write backtraces /proc/sysrq-trigger l",
        "cpus try",
    )
    record = guests.unjudged(many_cpus("cpuhp.defer=2 ignore_loglevel", *programs, config=config))
    assert ("page tables isolation: enabled" in record.log) == (config == "mitigations")
    assert set(map(int, re.findall(r"NMI backtrace for cpu (\d+)", record.log))) == set(range(8))
    assert_usable(record, 8)


def _per_cpu(record: Record, function: str) -> float:
    """Return what a callback took, in instructions: the median of all CPUs but the boot CPU.

    Virtual CPUs take turns on the exact clock, so now and then what another CPU did meanwhile
    falls into one callback; a mean would follow it, the cost of a callback does not.
    """
    found = [
        call.length
        for call in callbacks.parse(record.files["events"])
        if call.function == function and call.cpu
    ]
    assert found, f"{function} is not in the trace"
    return statistics.median(found)


@pytest.mark.groups("sched-smp")
def test_bringing_workqueues_up_costs_the_same_for_each_cpu(guests: Guests) -> None:
    """On stock it is 47,000 instructions with 16 CPUs, and 167,000 with 64."""
    trace = "nolapic_timer trace_event=cpuhp:* trace_buf_size=256K trace_clock=x86-tsc"
    few, many = (
        _per_cpu(
            guests(many_cpus(trace, f"poke show events {TRACE}", clock="exact", cpus=cpus)),
            "workqueue_online_cpu",
        )
        for cpus in (8, 32)
    )
    assert many < 1.1 * few
    assert many < 8_000


# --- CPUs that fail: the kernel that checks itself can make them ---------------------------------

#: States without a callback for a CPU that comes, besides those whose names say so.
NOTHING_TO_RUN = {
    *("offline", "online", "ap:offline", "ap:online"),
    *("relay:prepare", "fork:vm_stack_cache"),
}
STATES = "poke show states /sys/devices/system/cpu/hotplug/states"


def failing(fault: str, *programs: str, **more: object) -> BootSpec:
    """Return a boot of the debug kernel, 8 CPUs of which boot brings up two, with *fault*."""
    programs = programs or ("cpus wait", "cpus raise", "cpus try", STATES)
    return many_cpus(f"cpuhp.defer=2 {fault}", *programs, config="debug", **more)


def test_cpus_that_never_answer_share_one_time_limit(guests: Guests) -> None:
    trace = "trace_event=cpu_group:cpu_group_end"
    show = f"poke show events {TRACE}"
    programs = ("cpus wait", show, "cpus try")
    record = guests(failing(f"cpuhp.defer=4 cpuhp.silent=4,6,7 {trace}", *programs))
    assert given_up(record) == {4: -5, 6: -5, 7: -5}
    assert came_up(record) == (1, 4, 1)
    assert_usable(record, 5)
    *_, end = re.findall(r"up=(\d+) failed=(\d+) locked_ns=(\d+)", record.files["events"])
    assert end[:2] == ("1", "3")
    assert 9e9 < int(end[2]) < 20e9


def _assert_rolled_back(guests: Guests, at: dict[int, int]) -> None:
    """Fail unless each CPU of *at*, failing at that state, stays out alone; asked, it comes."""
    faults = ",".join(f"{cpu}:{state}" for cpu, state in at.items())
    record = guests(failing(f"cpuhp.fail={faults}"))
    assert "is not CPU:STATE" not in record.log
    assert given_up(record) == dict.fromkeys(at, -11)
    assert came_up(record)[:2] == (6 - len(at), 6)
    assert_usable(record, 8)


def test_a_callback_that_fails_takes_one_cpu_down(guests: Guests) -> None:
    """Where threads are made, where CPUs are woken, while online, and when made active."""
    _assert_rolled_back(guests, {3: 1, 4: 82, 5: 186, 7: 234})


def test_states_that_may_not_fail_are_refused(guests: Guests) -> None:
    record = guests(failing("cpuhp.fail=3:87,99:1,4:0,junk"))
    refused = re.findall(r"cpuhp.fail=(\S+) is not CPU:STATE", record.log)
    assert refused == ["3:87", "99:1", "4:0", "junk"]
    assert came_up(record)[:2] == (6, 6)


@pytest.mark.long
@pytest.mark.parametrize("part", range(8))
def test_every_state_may_fail(guests: Guests, part: int) -> None:
    record = guests(failing(""))
    names = re.findall(r"^ *(\d+): (\S+)", record.files["states"], re.M)
    # What only a CPU that goes down runs fails no CPU that comes.
    coming = [
        int(number)
        for number, name in names
        if not name.endswith((":dead", ":dying", ":teardown", ":waitempty", ":starting"))
        and name not in NOTHING_TO_RUN
    ]
    some = coming[part::8]
    assert some
    for first in range(0, len(some), 6):
        _assert_rolled_back(guests, dict(zip(range(2, 8), some[first : first + 6], strict=False)))


@pytest.mark.long
@pytest.mark.parametrize("nodes", [1, 16])
def test_many_cpus_on_the_kernel_that_checks_itself(guests: Guests, nodes: int) -> None:
    """On the exact clock, so that no watchdog barks because the host is slow."""
    record = guests(
        asked(
            "flatboot",
            "4G",
            WAIT,
            clock="exact",
            cpus=32,
            nodes=nodes,
            config="debug",
            cmdline=f"{KNOWN_DELAY} cpuhp.defer=4",
        )
    )
    assert came_up(record)[:2] == (28, 28)
    assert_usable(record, 32)
