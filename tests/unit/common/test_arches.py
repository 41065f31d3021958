"""The architectures' data files."""

from __future__ import annotations

import platform

import pytest

from flatboot.common import arches, paths
from flatboot.common.errors import UsageError


@pytest.mark.parametrize("name", arches.names())
def test_every_file_is_whole(name: str) -> None:
    arch = arches.load(name)
    for fragment in arch.fragments:
        assert (paths.kernel_dir() / "configs" / f"{fragment}.config").is_file()
    registers = arch.registers
    assert (registers.return_register is None) != (registers.return_on_stack is None)
    assert [limit.up_to for limit in arch.qemu.phys_bits] == sorted(
        limit.up_to for limit in arch.qemu.phys_bits
    )


def test_no_cross_compiler_at_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    assert arches.load("x86_64").cross_compile == ""
    assert arches.load("arm64").cross_compile == "aarch64-linux-gnu-"


def test_unknown() -> None:
    with pytest.raises(UsageError, match="choose one of arm64, x86_64"):
        arches.load("vax")
