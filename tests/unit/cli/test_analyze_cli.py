"""``flatboot analyze`` as a command."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard
from typer.testing import CliRunner

from flatboot.bootlog import bootlog_document, bootlog_input
from flatboot.cli.cli import application
from flatboot.common.errors import FlatbootError, UsageError

DATA = Path(__file__).parents[2] / "data/bootlog"
PUBLISHED = str(DATA / "published-5.8.log")


def run(*arguments: str) -> str:
    result = CliRunner().invoke(application(), ["analyze", *arguments])
    if result.exception is not None:
        raise result.exception
    return result.stdout


def document(*arguments: str) -> dict[str, Any]:
    return json.loads(run(*arguments, "--json"))  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", ["published-5.8.log", "published-excerpt.log"])
def test_the_published_gap_is_the_first_thing_said(name: str) -> None:
    lines = run(str(DATA / name)).splitlines()
    assert "likely one CPU sets up the struct pages" in lines[0]
    text = "\n".join(lines[:8])
    assert "Do: " in text
    assert "After: Normal zone: 89391104 pages, LIFO batch:63\nUntil: ACPI: PM-Timer" in text


def test_what_is_printed() -> None:
    text = " ".join(run(PUBLISHED).split())
    for part in (
        "Linux 5.8.0 (x86), 1024.00 GiB, 84 CPUs, 3 nodes, VMware",
        "boot 1 of 1",
        "early memory set-up",
        "total, to user space",
        "Largest gaps",
        "What would help",
        "up to 2.180 s, 34.2% of the kernel's part",
        "Not in this log",
    ):
        assert part in text


def test_json() -> None:
    found = document(PUBLISHED)
    assert found["gaps"][0]["length"] == 2_001_575_000
    assert sum(phase["length"] for phase in found["phases"]) == found["total"]
    assert found["causes"][0]["length"] == found["advice"][1]["gain"] == 2_180_364_000
    assert found["facts"]["cpus"] == 84
    assert found["callbacks"] == []
    assert "messages" not in found


def test_the_schema_is_kept() -> None:
    """A field that goes, or changes, makes another version; write the file anew for a new one."""
    shipped = json.loads(bootlog_document.SCHEMA.read_text())
    assert shipped == bootlog_document.schema()
    assert shipped["title"].endswith(f"version {bootlog_document.VERSION}")
    for name in ("dmesg.log", "public/marked.log", "public/oops.log", "public/initrd.log"):
        found = document(str(DATA / name))
        assert sorted(found) == shipped["required"]
        for kind, part in (("Cause", "causes"), ("Trouble", "troubles"), ("Advice", "advice")):
            known = shipped["$defs"][kind]["properties"]
            assert all(set(item) == set(known) for item in found[part])


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("published-5.8.log", ["2.180 s (34% of 6.381 s)", "likely one CPU", "keeps the deferral"]),
        ("public/oops.log", ["at 2.000 s", "oopsed: BUG: kernel NULL", "report"]),
        ("public/vendor.log", ["3.000 s (88%", "not known, until: VFS", "initcall_debug"]),
        ("public/T.log", ["nowhere", "no gap", ""]),
    ],
)
def test_three_lines(name: str, said: list[str]) -> None:
    lines = run(str(DATA / name), "--terse").splitlines()
    assert [line.partition(":")[0] for line in lines] == ["where", "why", "do"]
    assert all(words in line for words, line in zip(said, lines, strict=True))


def test_all_boots() -> None:
    text = run(str(DATA / "serial.log"), "--boots")
    assert "2 boots" in text
    assert "4.095 s" in text and "8.190 s" in text
    assert "(no start)" in run(str(DATA / "public/fragment.log"), "--boots")
    assert "67.000 s: user space" in run(str(DATA / "public/initrd.log"), "--boots")


def test_lines_that_took_long() -> None:
    lines = run(PUBLISHED, "--annotate", "--over", "1s").splitlines()
    assert lines[0] == "    2.028450    +2.001575  ACPI: PM-Timer IO Port: 0x448"
    assert lines[1].startswith("    3.950471    +1.010118  node 0 initialised")
    table = "\n".join(lines[2:])
    assert "ACPI" in table and "2.002 s" in table
    whole = run(PUBLISHED, "--annotate").splitlines()
    assert sum("+" in line for line in whole) > 50
    with pytest.raises(UsageError, match="'soon' is not a time"):
        run(PUBLISHED, "--annotate", "--over", "soon")


def test_a_log_to_be_shown() -> None:
    secret = str(DATA / "journal-short.log")
    done = CliRunner().invoke(application(), ["analyze", secret, "--redact"])
    shown = done.stdout
    host = Path(secret).read_text().split()[3]
    assert f" {host} kernel:" not in shown and " host1 kernel:" in shown
    assert len(shown.splitlines()) == len(Path(secret).read_text().splitlines())
    assert "replaced: 1 who built the kernel, 1 host name" in done.stderr
    with pytest.raises(UsageError, match="--redact takes one log"):
        run(PUBLISHED, PUBLISHED, "--redact")


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_any_locale(encoding: str) -> None:
    code = "from flatboot.cli.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "analyze", PUBLISHED],
        env={**os.environ, "PYTHONIOENCODING": encoding},
        capture_output=True,
        check=True,
    )
    text = done.stdout.decode(encoding)
    assert "total, to user space" in text
    assert ("######" in text) == (encoding != "utf-8")


def test_the_whole_way() -> None:
    text = run(PUBLISHED, "--systemd", str(DATA / "systemd-analyze.txt"))
    assert text.startswith("62.500 s of 74.326 s pass in the user space")
    for part in ("From firmware to the end", "boot loader", "Slowest units", "docker.service"):
        assert part in text
    with pytest.raises(FlatbootError, match="holds no output of systemd-analyze"):
        run(PUBLISHED, "--systemd", PUBLISHED)


def test_two_logs() -> None:
    text = run(str(DATA / "published-5.7.log"), PUBLISHED)
    assert text.startswith("1.863 s longer: 4.519 s to 6.381 s.")
    assert "Most of it: 1.999 s" in text
    assert "+1.993 s" in text and "-116.0 ms" in text
    assert "+0 us" not in text.split("Gaps that grew")[1]
    back = run(PUBLISHED, str(DATA / "published-5.7.log"))
    assert back.startswith("1.863 s less: 6.381 s to 4.519 s.")


def test_two_boots_of_a_log() -> None:
    text = run(str(DATA / "serial.log"), "--boot", "2", "--against", "1")
    assert text.startswith("4.095 s longer")
    for wrong in (
        [PUBLISHED, PUBLISHED, "--boot", "1"],
        ["-", "-"],
        ["-", "--against", "1"],
        [PUBLISHED, PUBLISHED, PUBLISHED],
        ["--live", "--boots"],
    ):
        with pytest.raises(UsageError):
            run(*wrong)
    with pytest.raises(FlatbootError, match="without times cannot be compared"):
        run(str(DATA / "dmesg-no-times.log"), PUBLISHED)


def test_boots() -> None:
    serial = str(DATA / "serial.log")
    assert "boot 2 of 2" in run(serial)
    assert "boot 1 of 2" in run(serial, "--boot", "1")
    with pytest.raises(UsageError, match="no boot 3"):
        run(serial, "--boot", "3")


def test_timeline(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    run(str(DATA / "initcall-debug.log"), "--timeline", str(path))
    events = json.loads(path.read_text())["traceEvents"]
    tracks = {event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert tracks == {"phases", "largest gaps", "initcalls", "driver probes"}
    spans = [event for event in events if event["ph"] == "X"]
    assert {"SMP init", "kswapd_init"} <= {span["name"] for span in spans}
    total = document(str(DATA / "initcall-debug.log"))["total"]
    assert sum(span["dur"] for span in spans if span["tid"] == 1) * 1000 == pytest.approx(total)


def test_trace(tmp_path: Path) -> None:
    trace = str(DATA / "cpuhp.trace")
    text = run(PUBLISHED, "--trace", trace)
    assert "CPU callbacks: 5, on 3 CPUs, in ns" in text
    assert "workqueue_online_cpu" in text
    assert "without trace_rb_cpu_prepare" in text
    run(PUBLISHED, "--trace", trace, "--timeline", str(tmp_path / "t.json"))
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    assert "callbacks of CPU 3" in {event["args"].get("name") for event in events}
    with pytest.raises(FlatbootError, match="holds no cpuhp events"):
        run(PUBLISHED, "--trace", PUBLISHED)
    with pytest.raises(FlatbootError, match="No such file"):
        run(PUBLISHED, "--trace", str(tmp_path / "none"))


def test_standard_input() -> None:
    code = "from flatboot.cli.cli import main; main()"
    command = [sys.executable, "-c", code, "analyze", "-", "--json"]
    with Path(PUBLISHED).open("rb") as log:
        done = subprocess.run(command, stdin=log, capture_output=True, check=True)
    assert json.loads(done.stdout)["facts"]["version"] == "5.8.0"


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "is empty"),
        (os.urandom(1 << 16), "is binary"),
        (b"\x7fELF" + bytes(1 << 16), "is binary"),
        (lzma.compress(b""), "is empty"),
        (b"Dear Sir,\n\nplease find enclosed\n", "no message of a Linux kernel"),
        (b'{"schema": 2}\n', "no message of a Linux kernel"),
    ],
    # Tests on several cores must bear the same names.
    ids=["empty", "binary", "ELF", "xz", "letter", "JSON"],
)
def test_what_is_no_log(tmp_path: Path, content: bytes, sentence: str) -> None:
    path = tmp_path / "log"
    path.write_bytes(content)
    with pytest.raises(FlatbootError, match=sentence) as caught:
        run(str(path))
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "xz": lzma.compress,
    "bzip2": bz2.compress,
    "zstd": zstandard.ZstdCompressor(write_checksum=True).compress,
}


@pytest.mark.parametrize("kind", PACKERS)
def test_a_compressed_log(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "log"
    path.write_bytes(PACKERS[kind](Path(PUBLISHED).read_bytes()))
    assert document(str(path)) == document(PUBLISHED)
    command = 'cat "$0" | "$1" -c "from flatboot.cli.cli import main; main()" analyze - --json'
    done = subprocess.run(["sh", "-c", command, path, sys.executable], capture_output=True)
    assert json.loads(done.stdout)["facts"]["version"] == "5.8.0"


@pytest.mark.parametrize("kind", PACKERS)
@pytest.mark.parametrize("damage", ["cut", "changed"])
def test_a_damaged_compressed_log(tmp_path: Path, kind: str, damage: str) -> None:
    packed = bytearray(PACKERS[kind](Path(PUBLISHED).read_bytes()))
    if damage == "cut":
        del packed[len(packed) // 2 :]
    else:
        packed[len(packed) // 2] ^= 0xFF
    path = tmp_path / "log"
    path.write_bytes(packed)
    with pytest.raises(FlatbootError, match=rf"log: the {kind} data are damaged \(.+\): copy"):
        run(str(path))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(FlatbootError, match="No such file"):
        run(str(tmp_path / "none"))
    with pytest.raises(FlatbootError, match="Is a directory"):
        run(str(tmp_path))
    with pytest.raises(FlatbootError, match="cannot write"):
        run(PUBLISHED, "--timeline", "/proc/none/t.json")


def test_a_log_or_live() -> None:
    for arguments in ([], [PUBLISHED, "--live"]):
        with pytest.raises(UsageError, match="either one log, or two, or --live"):
            run(*arguments)
    with pytest.raises(UsageError, match="leave out --boot"):
        run("--live", "--boot", "1")


def test_live(tmp_path: Path) -> None:
    """A pipe stands for /dev/kmsg: no data means the end, nobody waits for more."""
    path = tmp_path / "kmsg"
    os.mkfifo(path)
    content = (DATA / "kmsg.log").read_bytes()
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    writer = os.open(path, os.O_WRONLY)
    try:
        os.write(writer, content)
        analysis = bootlog_input.analyze_live(path)
    finally:
        os.close(writer)
        os.close(reader)
    assert analysis.total == 8_190_034_000
    assert analysis.format == "raw /dev/kmsg"


def test_live_without_a_boot(tmp_path: Path) -> None:
    path = tmp_path / "kmsg"
    path.write_text("6,900,86400118203,-;usb 1-1: new device\n")
    with pytest.raises(FlatbootError, match="none of its boot"):
        bootlog_input.analyze_live(path)
    with pytest.raises(FlatbootError, match="No such file"):
        bootlog_input.analyze_live(tmp_path / "none")


MOST_MORE = 150 << 20
MEASURED = """
import resource, sys
from flatboot.cli.cli import main
try:
    main()
finally:
    print(f"peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}", file=sys.stderr)
"""


def analyze_alone(path: Path) -> tuple[subprocess.CompletedProcess[bytes], int]:
    """Analyse *path* in a process of its own, and return that and its peak memory in bytes."""
    command = [sys.executable, "-c", MEASURED, "analyze", str(path), "--json"]
    done = subprocess.run(command, capture_output=True, check=False)
    return done, int(done.stderr.rsplit(b"peak ", 1)[1]) * 1024


@pytest.fixture(scope="module")
def usual_peak() -> int:
    return analyze_alone(DATA / "dmesg.log")[1]


def test_a_huge_file_is_read_in_bounded_memory(tmp_path: Path, usual_peak: int) -> None:
    """1 GiB, nearly all of it a hole: one line of zeros."""
    path = tmp_path / "huge"
    with path.open("wb") as file:
        file.write((DATA / "serial.log").read_bytes())
        file.truncate(1 << 30)
    done, peak = analyze_alone(path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["boots"] == 2
    assert b"reading" in done.stderr
    assert peak < usual_peak + MOST_MORE


def test_a_boot_with_far_too_many_messages(tmp_path: Path, usual_peak: int) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    head = (DATA / "dmesg.log").read_bytes().splitlines(keepends=True)[:-6]

    def write() -> None:
        with path.open("wb") as file:
            file.writelines(head)
            for second in range(9, 409):
                file.writelines(
                    b"[%5d.%06d] usb 1-1: new high-speed USB device using xhci_hcd\n" % (second, at)
                    for at in range(1000)
                )

    writer = threading.Thread(target=write)
    writer.start()
    done, peak = analyze_alone(path)
    writer.join()
    assert done.returncode == 0, done.stderr
    assert any("too many messages" in note for note in json.loads(done.stdout)["notes"])
    assert peak < usual_peak + MOST_MORE


def test_one_endless_line(tmp_path: Path, usual_peak: int) -> None:
    path = tmp_path / "line"
    path.write_bytes(b"x" * (100 << 20))
    done, peak = analyze_alone(path)
    assert done.returncode == 1
    assert done.stderr.count(b"flatboot:") == 1
    assert b"no message of a Linux kernel" in done.stderr
    assert peak < usual_peak + MOST_MORE
