"""Callers of a function: in code alone, by the name of what stands around the call."""

from __future__ import annotations

from pathlib import Path

from fakes import write

from flatboot.kernel import callers
from flatboot.kernel.callers import Known
from flatboot.kernel.layer import File, Layer

CODE = """\
/* asks pfn_valid() itself */
#define here(pfn) pfn_valid(pfn)
#define there(pfn)	\\
	(pfn_valid(pfn) && (pfn))
#define pfn_valid pfn_valid

static int pfn_valid(unsigned long pfn);
EXPORT_SYMBOL(pfn_valid);

static inline int
first(unsigned long pfn,
      int flags)
{
	return pfn_valid(pfn); // pfn_valid
}

bool second(unsigned long pfn)
{
out:
	/* pfn_valid() */
	return my_pfn_valid(pfn);
}

SYSCALL_DEFINE1(third, int, pfn)
{
	return second(pfn) || pfn_valid(pfn);
}
"""


def test_callers_are_found_by_name(tmp_path: Path) -> None:
    call = "void call(void)\n{\n\tpfn_valid(0);\n}\n"
    write(
        tmp_path,
        {
            "mm/a.c": CODE,
            "mm/changed.c": call,
            "mm/removed.c": call,
            "mm/a.rst": call,
            "other/b.c": call,
        },
    )
    layer = Layer(
        {
            "mm/changed.c": File(b"void call(void)\n{\n}\n"),
            "mm/removed.c": None,
            "mm/new.h": File(call.encode()),
            "other/new.c": File(call.encode()),
        }
    )
    assert callers.find(tmp_path, layer, Known(["pfn_valid"], ["mm"], {})) == {
        "mm/a.c": ["SYSCALL_DEFINE1", "first", "here", "pfn_valid", "there"],
        "mm/new.h": ["call"],
    }
