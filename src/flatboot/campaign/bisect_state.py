"""What a bisection has found out so far, in a folder, so that it can be taken up again."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from flatboot.common import atomic
from flatboot.common.errors import FlatbootError, UsageError
from flatboot.guest.machine import Machine
from flatboot.record.record import Record
from flatboot.record.store import Store

_SCHEMA = 1
_RECORDS = "records.sqlite"


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
        self._data: dict[str, Any] = {
            "schema": _SCHEMA,
            "settings": settings,
            "commits": {},
            "log": "",
        }
        if self._file.is_file():
            self._data = self._read(settings)
        else:
            self._save()

    def _read(self, settings: dict[str, str]) -> dict[str, Any]:
        try:
            data: dict[str, Any] = json.loads(self._file.read_text())
            schema, known = data["schema"], data["settings"]
        except (ValueError, KeyError, TypeError) as error:
            raise FlatbootError(
                f"{self._file} is not the state of a bisection: add --reset to begin anew"
            ) from error
        if schema > _SCHEMA:
            raise FlatbootError(f"a newer flatboot wrote {self._file}: update flatboot")
        if known != settings:
            changed = sorted(key for key in settings if known.get(key) != settings[key])
            raise UsageError(
                f"{self.folder} holds another bisection (its {', '.join(changed)} differ): name"
                " another folder with --state, or add --reset to begin anew"
            )
        return data

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
        return str(self._commit(commit).get("failure", ""))

    def fail(self, commit: str, why: str, log: str) -> None:
        """Keep that *commit* could not be measured: the sentence *why*, and the end of the log."""
        with atomic.new_file(self.log_file(commit)) as new:
            new.write_text(log + "\n")
        self._commit(commit)["failure"] = why
        self._save()

    def log_file(self, commit: str) -> Path:
        """Return the file with the end of the log of a *commit* that failed."""
        return self.folder / "logs" / f"{commit[:12]}.log"

    def seconds(self, commit: str) -> float:
        """Return how long *commit* took so far, in seconds."""
        return float(self._commit(commit).get("seconds", 0.0))

    def spend(self, commit: str, seconds: float) -> None:
        """Add *seconds* to what *commit* took."""
        self._commit(commit)["seconds"] = round(self.seconds(commit) + seconds, 1)
        self._save()

    def keep_log(self, log: str) -> None:
        """Keep git's log of the bisection."""
        self._data["log"] = log
        self._save()

    def _commit(self, commit: str) -> dict[str, Any]:
        entries: dict[str, dict[str, Any]] = self._data["commits"]
        return entries.setdefault(commit, {})

    def _save(self) -> None:
        with atomic.new_file(self._file) as new:
            new.write_text(json.dumps(self._data, indent=1) + "\n")


def _key(commit: str, machine: Machine) -> str:
    return f"{commit}, {machine.title}"
