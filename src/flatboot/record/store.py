"""The store: the records of all boots that repeat, in one SQLite file in the cache."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from flatboot.common import locks, progress
from flatboot.record.record import Record
from flatboot.record.results import Damaged, Results

#: How many boots it keeps: the newest.
KEPT = 5000

_T = TypeVar("_T")


class Store:
    """Records by the keys of their boots, shared by all processes of a user.

    It is a results file, which any SQL tool reads. One that is damaged is set aside, and the store
    begins anew.
    """

    def __init__(self, path: Path) -> None:
        """Be the file *path*, which is made when there is something to keep."""
        self.path = path

    def find(self, key: str) -> Record | None:
        """Return the record of the boot *key*, or None.

        Raises:
            FlatbootError: the file cannot be read, or a newer flatboot wrote it.
        """
        if not self.path.exists():
            return None
        return self._do(lambda results: results.find(key))

    def add(self, key: str, record: Record) -> None:
        """Keep *record* as that of the boot *key*; it is on the disk when this returns.

        Raises:
            FlatbootError: the file cannot be written, or a newer flatboot wrote it.
        """

        def add(results: Results) -> None:
            results.add(key, record)
            results.prune(KEPT)

        self._do(add)

    def _do(self, work: Callable[[Results], _T]) -> _T:
        try:
            return self._once(work)
        except Damaged:
            with locks.exclusive(self.path.with_suffix(".lock"), "mending the store"):
                try:
                    # Another process may have set it aside meanwhile.
                    return self._once(work)
                except Damaged as error:
                    self._set_aside(str(error))
                    return self._once(work)

    def _once(self, work: Callable[[Results], _T]) -> _T:
        with Results.open(self.path, create=True) as results:
            return work(results)

    def _set_aside(self, why: str) -> None:
        now = datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%SZ")
        aside = self.path.with_name(f"{self.path.stem}-damaged-{now}{self.path.suffix}")
        self.path.replace(aside)
        # SQLite would apply what is left of a transaction to the new file.
        self.path.with_name(f"{self.path.name}-journal").unlink(missing_ok=True)
        progress.warn(f"{why}: set aside as {aside.name}, and a new store begun")
