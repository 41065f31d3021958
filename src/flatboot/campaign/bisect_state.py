"""What a bisection has found out so far, in a folder, so that it can be taken up again."""

from __future__ import annotations

import dataclasses
import json
import shutil
from dataclasses import dataclass, field
from pathlib import Path

from flatboot.common import atomic, typed
from flatboot.common.errors import FlatbootError, UsageError
from flatboot.guest.machine import Machine
from flatboot.record.record import Record
from flatboot.record.store import Store

_SCHEMA = 1
_RECORDS = "records.sqlite"


@dataclass
class _Commit:
    failure: str = ""
    seconds: float = 0.0


@dataclass
class _Kept:
    settings: dict[str, str]
    commits: dict[str, _Commit] = field(default_factory=dict)
    log: str = ""
    schema: int = _SCHEMA


class State:
    """A folder with state.json, records.sqlite (the boots), and the ends of the logs of failures.

    All of it is written at once and whole, so that whatever ends this process loses at most the
    boot in progress.
    """

    def __init__(self, folder: Path, settings: dict[str, str]) -> None:
        """Take up the state in *folder*, or begin one for a bisection with these *settings*.

        Raises:
            UsageError: the folder holds the state of another bisection.
            FlatbootError: it holds something else, or a newer flatboot wrote it.
        """
        self.folder = folder
        self._file = folder / "state.json"
        self._records = Store(folder / _RECORDS)
        self._kept = _Kept(settings)
        if self._file.is_file():
            self._kept = self._read(settings)
        else:
            self._save()

    def _read(self, settings: dict[str, str]) -> _Kept:
        try:
            kept = typed.load(self._file, _Kept)
        except FlatbootError as error:
            raise FlatbootError(
                f"{error}, so it is not the state of a bisection: add --reset to begin anew"
            ) from error
        if kept.schema > _SCHEMA:
            raise FlatbootError(f"a newer flatboot wrote {self._file}: update flatboot")
        if kept.settings != settings:
            known = kept.settings
            changed = sorted(key for key in settings if known.get(key) != settings[key])
            raise UsageError(
                f"{self.folder} holds another bisection (its {', '.join(changed)} differ): name"
                " another folder with --state, or add --reset to begin anew"
            )
        return kept

    @staticmethod
    def forget(folder: Path) -> None:
        """Remove the state in *folder*, if there is one."""
        if (folder / "state.json").is_file():
            shutil.rmtree(folder / "logs", ignore_errors=True)
            (folder / _RECORDS).unlink(missing_ok=True)
            (folder / "state.json").unlink()

    def record(self, commit: str, machine: Machine) -> Record | None:
        """Return the boot of *commit* (a full hash) on *machine*; None if there was none yet."""
        return self._records.find(_key(commit, machine))

    def add(self, commit: str, machine: Machine, boot: Record) -> None:
        """Keep a boot of *commit* on *machine*."""
        self._records.add(_key(commit, machine), boot)

    def failure(self, commit: str) -> str:
        """Return why *commit* could not be measured, or ""."""
        return self._commit(commit).failure

    def fail(self, commit: str, why: str, log: str) -> None:
        """Keep that *commit* could not be measured: the sentence *why*, and the end of the log."""
        with atomic.new_file(self.log_file(commit)) as new:
            new.write_text(log + "\n")
        self._commit(commit).failure = why
        self._save()

    def log_file(self, commit: str) -> Path:
        """Return the file with the end of the log of a *commit* that failed."""
        return self.folder / "logs" / f"{commit[:12]}.log"

    def seconds(self, commit: str) -> float:
        """Return how long *commit* took so far, in seconds."""
        return self._commit(commit).seconds

    def spend(self, commit: str, seconds: float) -> None:
        """Add *seconds* to what *commit* took."""
        self._commit(commit).seconds = round(self.seconds(commit) + seconds, 1)
        self._save()

    def keep_log(self, log: str) -> None:
        """Keep git's log of the bisection."""
        self._kept.log = log
        self._save()

    def _commit(self, commit: str) -> _Commit:
        return self._kept.commits.setdefault(commit, _Commit())

    def _save(self) -> None:
        with atomic.new_file(self._file) as new:
            new.write_text(json.dumps(dataclasses.asdict(self._kept), indent=1) + "\n")


def _key(commit: str, machine: Machine) -> str:
    return f"{commit}, {machine.title}"
