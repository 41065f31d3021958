"""CPU callbacks from traces."""

from __future__ import annotations

from pathlib import Path

import pytest

from flatboot.record import callbacks
from flatboot.record.callbacks import Callback

DATA = Path(__file__).parents[2] / "data/bootlog"
TRACE = (DATA / "cpuhp.trace").read_text()
TICKS = (DATA / "cpuhp-tsc.trace").read_text()


def test_calls_of_each_cpu() -> None:
    calls = callbacks.parse(TRACE)
    assert len(calls) == 18
    assert calls[0] == Callback(1, 1, "smpboot_create_threads", 270_000_000.0, 148_000.0)
    online = [call.length for call in calls if call.function == "workqueue_online_cpu"]
    assert online == pytest.approx([12_000, 24_000, 36_000])
    assert [call.start for call in calls] == sorted(call.start for call in calls)


def test_the_unit_is_the_clock_s() -> None:
    assert callbacks.unit(TRACE) == "ns"
    assert callbacks.unit(TICKS) == "ticks"
    assert callbacks.parse(TICKS)[0].length == 444_000


def test_a_call_that_did_not_end_is_left_out() -> None:
    assert "never_ends" in TRACE
    assert "never_ends" not in {call.function for call in callbacks.parse(TRACE)}
    cut = TRACE[: TRACE.index("cpuhp_exit")]
    assert callbacks.parse(cut) == []
    begun = TRACE[TRACE.index("cpuhp_exit") :]
    assert len(callbacks.parse(begun)) == 17


def test_callbacks_that_run_at_the_same_time() -> None:
    line = "  {}-{}  [00{}] .....     1.0000{:02d}: cpuhp_{}"
    enter, leave = (
        "enter: cpu: {:04d} target: 238 step: 198 (f)",
        "exit:  cpu: {:04d}  state: 198 step: 198 ret: 0",
    )
    text = "\n".join(
        [
            line.format("cpuhp/1", 19, 1, 10, enter.format(1)),
            line.format("cpuhp/2", 24, 2, 11, enter.format(2)),
            line.format("cpuhp/1", 19, 1, 15, leave.format(1)),
            line.format("cpuhp/2", 24, 2, 19, leave.format(2)),
        ]
    )
    found = [(call.cpu, round(call.length)) for call in callbacks.parse(text)]
    assert found == [(1, 5000), (2, 8000)]


def test_costs_leave_the_tracer_out() -> None:
    calls = callbacks.parse(TRACE)
    assert callbacks.TRACERS_OWN in {call.function for call in calls}
    costs = callbacks.costs(calls)
    assert [cost.function for cost in costs][:2] == ["bringup_cpu", "smpboot_create_threads"]
    assert callbacks.TRACERS_OWN not in {cost.function for cost in costs}
    online = next(cost for cost in costs if cost.function == "workqueue_online_cpu")
    assert (online.step, online.calls) == (198, 3)
    assert (online.total, online.mean, online.longest) == pytest.approx((72_000, 24_000, 36_000))


def test_lost_events() -> None:
    assert callbacks.lost(TRACE) == 0
    assert callbacks.lost(TICKS) == 32


def test_no_trace() -> None:
    assert callbacks.parse("") == []
    assert callbacks.parse("hello\n") == []


def test_a_trace_of_our_own_kernel() -> None:
    text = (DATA / "7.3-cpuhp-tsc.trace").read_text()
    calls = callbacks.parse(text)
    assert 2 * len(calls) == text.count(": cpuhp_")
    assert {call.cpu for call in calls} == {0, 1, 2, 3}
    assert callbacks.lost(text) == 0
    online = [call for call in calls if call.function == "workqueue_online_cpu"]
    assert [(call.cpu, call.length) for call in online] == [(1, 13986), (2, 13982), (3, 13956)]
