"""Random boots carried out: ours, a reference of the same machine, and what became of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from flatboot.campaign import fuzz_judge
from flatboot.campaign.fuzz_draw import RandomBoot
from flatboot.guest import stored
from flatboot.guest.boot import GuestFailed
from flatboot.guest.boot_spec import BootSpec, Image
from flatboot.kernel.build import KernelName
from flatboot.record.record import Record

PASSED, FAILED, REFUSED = "passed", "failed", "stock refuses"
#: The kernel says at once what it finds wrong, and does not take a busy host for its own fault.
_CMDLINE = (
    "loglevel=5 log_buf_len=4M no_timer_check watchdog_thresh=60"
    " rcupdate.rcu_cpu_stall_timeout=120 kunit.enable=0"
)
TIMEOUT_S = 900.0


@dataclass(frozen=True)
class Outcome:
    """What became of a case.

    Attributes:
        case: the case.
        verdict: "passed", "failed" or "stock refuses".
        problems: what is wrong, a sentence each and lines below it; of a case that stock refuses,
            what it said.
        records: the records of those boots that came to their end, by what was booted.
        consoles: the consoles of the others, likewise.
        wall_s: seconds that it took.
    """

    case: RandomBoot
    verdict: str
    problems: list[str]
    records: dict[str, Record]
    consoles: dict[str, str]
    wall_s: float

    def save(self, folder: Path) -> None:
        """Write records and consoles to *folder*, by seed and what was booted."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, record in self.records.items():
            record.save(folder / f"{self.case.seed}-{name}.json")
            (folder / f"{self.case.seed}-{name}.console").write_text(record.console)
        for name, console in self.consoles.items():
            (folder / f"{self.case.seed}-{name}.console").write_text(console)


class Fuzzer:
    """The kernels of a config, and the boots of one case on them.

    With the config debug the reference is the same kernel, which waits: no other has the same
    MemTotal. With any other it is stock.
    """

    def __init__(self, kernels: Callable[[str, str], KernelName | Image], config: str) -> None:
        """Take *kernels*, which returns the kernel of a flavour and config, built if need be."""
        self._kernels = kernels
        self._config = config

    def run(self, case: RandomBoot) -> Outcome:
        """Carry out *case*.

        Raises:
            FlatbootError: QEMU or a kernel is not there, which no case is to blame for.
        """
        began = time.monotonic()
        self._case = case
        self._records: dict[str, Record] = {}
        self._consoles: dict[str, str] = {}
        verdict, problems = self._judged()
        return Outcome(
            case, verdict, problems, self._records, self._consoles, time.monotonic() - began
        )

    def _judged(self) -> tuple[str, list[str]]:
        waits = self._config == "debug"
        kernel = ("flatboot", self._config, "wait") if waits else ("stock", self._config, "")
        failed = self._boot("reference", *kernel, fuzz_judge.REFERENCE)
        if failed:
            refused = self._boot("stock", "stock", "users", "", ()) if waits else failed
            return (REFUSED, [refused]) if refused else (FAILED, [f"waiting, {failed}"])
        programs = fuzz_judge.programs(self._case)
        failed = self._boot("flatboot", "flatboot", self._config, self._case.mode, programs)
        if failed:
            problems = [failed, *fuzz_judge.splat(self._consoles["flatboot"])]
        else:
            ours, reference = self._records["flatboot"], self._records["reference"]
            witness = self._witness() if fuzz_judge.splat(ours.console) else ""
            problems = fuzz_judge.judge(self._case, ours, reference, witness)
            problems += fuzz_judge.splat(reference.console) if waits else []
        return (FAILED if problems else PASSED), problems

    def _witness(self) -> str:
        """Return the console of stock under the load of the case, which may complain as well."""
        self._boot("witness", "stock", self._config, "", self._case.load)
        if "witness" in self._consoles:
            return self._consoles["witness"]
        return self._records["witness"].console

    def _boot(
        self, name: str, flavour: str, config: str, mode: str, programs: tuple[str, ...]
    ) -> str:
        """Boot the case once, keep the record or the console as *name*; return what failed."""
        image = self._kernels(flavour, config)
        words = [f"deferred_init={mode}"] if mode else []
        spec = BootSpec(
            image,
            self._case.machine,
            " ".join([*words, _CMDLINE, *self._case.parameters]),
            "wall",
            programs,
            arguments=self._case.arguments,
            timeout_s=TIMEOUT_S,
        )
        try:
            self._records[name] = stored.boot(spec)
        except GuestFailed as error:
            self._consoles[name] = error.console
            return str(error)
        return ""
