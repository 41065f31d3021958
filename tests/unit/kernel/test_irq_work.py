"""A self-IPI that is raised while a machine is about to be suspended never comes."""

from __future__ import annotations

import re

from flatboot.common import paths

#: What makes irq_work that raises one; lazy irq_work waits for the tick.
EAGER = re.compile(rb"\b(?:DEFINE_IRQ_WORK|init_irq_work|IRQ_WORK_INIT|IRQ_WORK_INIT_HARD)\(")


def test_all_irq_work_is_lazy() -> None:
    files = [file for file in paths.kernel_dir().rglob("*.[chp]*") if file.is_file()]
    assert any(b"IRQ_WORK_INIT_LAZY(" in file.read_bytes() for file in files)
    assert [str(file) for file in files if EAGER.search(file.read_bytes())] == []
