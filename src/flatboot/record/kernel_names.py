"""Short names for the kernels of many records: as much as tells them apart, and no more."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from flatboot.record.record import Record

_HASH_DIGITS = 8
# The fields that every name has: flavour and parameters.
_ALWAYS = (0, 1)


def names(records: Sequence[Record]) -> list[str]:
    """Return the name of each record's kernel, such as "stock" or "flatboot deferred_init=lazy".

    It is the flavour and the kernel's own parameters, which not all boots of the architecture have;
    then of version, base, config, architecture, compiler and the hashes of config and image what
    differs between records that agree in all before it.
    """
    shared = _shared_parameters(records)
    rows = [_fields(record, shared[record.machine.arch]) for record in records]
    used = [*_ALWAYS]
    for field in range(len(_ALWAYS), len(rows[0]) if rows else 0):
        values: defaultdict[tuple[str, ...], set[str]] = defaultdict(set)
        for row in rows:
            values[tuple(row[index] for index in used)].add(row[field])
        if any(len(group) > 1 for group in values.values()):
            used.append(field)
    return [" ".join(row[index] for index in used if row[index]) for row in rows]


def _fields(record: Record, shared: set[str]) -> tuple[str, ...]:
    kernel = record.kernel
    own = [word for word in record.cmdline.split() if word not in shared]
    return (
        kernel.flavour,
        " ".join(own),
        kernel.version,
        kernel.base,
        kernel.config,
        record.machine.arch,
        kernel.compiler,
        kernel.config_hash[:_HASH_DIGITS],
        kernel.image[:_HASH_DIGITS],
    )


def _shared_parameters(records: Sequence[Record]) -> dict[str, set[str]]:
    shared: dict[str, set[str]] = {}
    for record in records:
        words = set(record.cmdline.split())
        arch = record.machine.arch
        shared[arch] = shared[arch] & words if arch in shared else words
    return shared
