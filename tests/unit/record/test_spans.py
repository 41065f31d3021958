"""What the plugin wrote of calls is read and checked; the traces that it came with name the steps.

The data are cut from a boot of stock 7.3 with 4 CPUs: three callers, events of two CPUs.
"""

from __future__ import annotations

import ctypes
import dataclasses
import json
from pathlib import Path

import pytest
from boots import ABLE, GUEST, record

from flatboot.common.errors import FlatbootError, UsageError
from flatboot.guest import boot, functions
from flatboot.guest.boot_spec import BootSpec
from flatboot.guest.machine import machine
from flatboot.kernel import own_kernel
from flatboot.record import spans
from flatboot.record.marks import Symbols
from flatboot.record.record import Span, load

DATA = Path(__file__).parents[2] / "data/spans"
COUNTS = (DATA / "counts").read_text()
SYMBOLS = Symbols((DATA / "System.map").read_text())
TRACE = (DATA / "trace").read_text()


def test_parts_add_up() -> None:
    found = spans.read(COUNTS, SYMBOLS)
    whole = int(COUNTS.split()[1])
    assert sum(span.working + span.spinning for span in found) == whole
    with pytest.raises(FlatbootError, match="the calls add up to 18,151,904 instructions and"):
        spans.read(COUNTS.replace(str(whole), str(whole + 1)), SYMBOLS)
    for text in ("", "all 7\n", COUNTS.replace("rest", "most")):
        with pytest.raises(FlatbootError, match="no counts of calls"):
            spans.read(text, SYMBOLS)


def test_spans_of_a_boot() -> None:
    found = {span.function: span for span in spans.read(COUNTS, SYMBOLS)}
    online = found["workqueue_online_cpu"]
    assert online == Span("cpuhp_invoke_callback", "workqueue_online_cpu", 3, 0, 40112, 4, 40108, 0)
    kick = found["cpuhp_kick_ap_alive"]
    assert kick.total == kick.waiting + kick.working
    assert kick.spinning > 60_000
    assert found["set_cpu_sibling_map"].caller == "start_secondary"
    assert found["sched_init_domains"].caller == "sched_init_smp"
    assert found["cpu_startup_entry"].open == 3
    assert found["cpu_startup_entry"].total == 0
    assert found[spans.FIRMWARE].working == 15_820_498
    assert spans.cpus(list(found.values())) == 4
    assert spans.cpus([]) == 1


def test_steps_come_from_the_trace() -> None:
    found = {span.function: span for span in spans.with_steps(spans.read(COUNTS, SYMBOLS), TRACE)}
    assert found["workqueue_online_cpu"].step == 186
    assert found["cpuhp_kick_ap_alive"].step == 82
    # A CPU that is not online traces nothing.
    assert found["sched_cpu_starting"].step == -1
    assert found["set_cpu_sibling_map"].step == -1


def test_what_is_the_tracers() -> None:
    found = spans.read(COUNTS, SYMBOLS)
    names = {span.function for span in found if spans.is_tracers(span)}
    assert "trace_rb_cpu_prepare" in names
    assert "trace_event_raw_event_cpuhp_enter" in names
    assert "workqueue_online_cpu" not in names


def test_arguments_of_the_plugin() -> None:
    first, *others = spans.arguments(SYMBOLS)
    assert first.startswith("switch=0xffffffff8")
    begins = SYMBOLS.address(spans.CALLBACKS)
    assert f"caller={begins:#x}-0xffffffff81071350" in others
    assert all(word.startswith("caller=0x") for word in others)
    with pytest.raises(FlatbootError, match="the kernel has no __switch_to_asm, so tasks"):
        spans.arguments(Symbols("ffffffff81000000 T start_kernel\n"))


def test_the_plugin_is_compiled() -> None:
    loaded = ctypes.CDLL(str(functions.plugin(ABLE, "spans")), mode=1)
    assert ctypes.c_int.in_dll(loaded, "qemu_plugin_version").value == 1


def test_not_with_functions_and_on_the_exact_clock_only(tmp_path: Path) -> None:
    kernel = own_kernel.find(tmp_path)
    with pytest.raises(UsageError, match="calls are counted on the exact clock only"):
        boot.boot(BootSpec(kernel, machine(), clock="wall", spans=True))
    with pytest.raises(UsageError, match="functions and calls are not counted together"):
        boot.boot(BootSpec(kernel, machine(), functions="instructions", spans=True))


def test_counts_come_from_the_file_of_the_run(tmp_path: Path) -> None:
    (tmp_path / "System.map").write_text((DATA / "System.map").read_text())
    notes: list[str] = []
    wanted = dataclasses.replace(GUEST, spec=dataclasses.replace(GUEST.spec, spans=True))
    with boot._counting(wanted, tmp_path / "System.map", notes) as (guest, counts):
        assert guest.counting is not None
        assert guest.counting.arguments == spans.arguments(SYMBOLS)
        Path(f"/proc/self/fd/{guest.counting.out}").write_text(COUNTS)
        assert counts().spans == spans.read(COUNTS, SYMBOLS)
    assert notes == []


def test_records_keep_spans_and_older_ones_load(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    kept = dataclasses.replace(record("stock", "2G", 1), spans=spans.read(COUNTS, SYMBOLS))
    kept.save(path)
    assert load(path) == kept
    data = json.loads(path.read_text())
    del data["spans"]
    path.write_text(json.dumps({**data, "schema": 3}))
    assert load(path).spans == []
