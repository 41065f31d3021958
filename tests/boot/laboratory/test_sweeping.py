"""A real sweep, on a real Dask scheduler and two workers on loopback."""

from __future__ import annotations

import contextlib
from pathlib import Path

from cluster import Cluster
from flatboot.campaign import matrix, sweep
from flatboot.kernel.build import KernelName
from flatboot.record import callbacks, results, spans
from flatboot.record.results import Results

MATRIX = """
memory = ["512M", "1G"]
phases = false
[kernels.stock]
flavour = "stock"
config = "users"
"""


def test_a_sweep_on_two_workers(tmp_path: Path) -> None:
    image = KernelName("stock", "users").image()
    (tmp_path / "m.toml").write_text(MATRIX)
    jobs = sweep.plan(matrix.load(tmp_path / "m.toml"))
    file = tmp_path / "r.sqlite"
    with contextlib.ExitStack() as stack:
        cluster = Cluster(tmp_path, stack)
        cluster.two_workers()
        with Results.open(file, create=True) as kept:
            sweep.run(jobs, kept, scheduler=cluster.address)
            assert kept.keys() == {job.key for job in jobs}
        # Neither had the kernel: each booted the copy that it was sent.
        for name in cluster.workers:
            (sent,) = cluster.cache(name).glob("sent/*/vmlinux")
            assert sent.read_bytes() == image.vmlinux.read_bytes()
    by_size = {record.machine.memory_bytes >> 20: record for record in results.read([file])}
    assert sorted(by_size) == [512, 1024]
    for record in by_size.values():
        assert record.kernel.config_hash == image.config_hash
        assert 1e8 < record.to_init < 1e9
    # Stock sets up its memory map before /init.
    assert by_size[1024].to_init > by_size[512].to_init + 1_000_000
    assert by_size[1024].meminfo["MemTotal"] > by_size[512].meminfo["MemTotal"]


def test_the_work_of_cpu_bring_up_is_counted(tmp_path: Path) -> None:
    wanted = {
        "kernels": {"stock": {"flavour": "stock", "config": "users"}},
        "memory": "512M",
        "cpus": 8,
        "phases": False,
        "trace": True,
        "cmdline": {"quick": "lpj=4000000 nolapic_timer"},
    }
    with Results.open(tmp_path / "r.sqlite", create=True) as kept:
        sweep.run(sweep.plan(matrix.parse(wanted, "test", tmp_path)), kept)
        (record,) = kept.records()
    trace = record.files["/sys/kernel/tracing/trace"]
    assert callbacks.lost(trace) == 0
    traced = {cost.function: cost for cost in callbacks.costs(callbacks.parse(trace))}
    counted = {span.function: span for span in record.spans if span.caller == spans.CALLBACKS}
    assert spans.cpus(record.spans) == 8
    assert traced.keys() <= counted.keys()
    for name, cost in traced.items():
        assert counted[name].calls == cost.calls, name
        assert counted[name].step == cost.step, name
    # The trace has the time of a callback too, and that of its two events besides. Where nothing
    # sleeps it is the time that was counted.
    quiet = [name for name in traced if counted[name].waiting == 0]
    assert len(quiet) > 5
    tracer = {
        name: (traced[name].total - counted[name].total) / traced[name].calls for name in quiet
    }
    assert min(tracer.values()) > 0
    # A tick may fall into the events of one.
    assert sum(each >= 1000 for each in tracer.values()) <= 1, tracer
    everything = sum(span.working + span.spinning for span in record.spans)
    # All sleep for a part of the time, and nothing runs twice.
    assert 0.9 * record.to_init < everything < record.to_init
