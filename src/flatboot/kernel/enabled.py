"""Which of some C files a configured kernel compiles, as its own Kbuild files have it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from flatboot.common import processes
from flatboot.kernel.make import INHERITED, Make

_RULES = Path(__file__).with_name("enabled.mk")


def objects(maker: Make, sources: Iterable[str]) -> list[str]:
    """Return the objects of those of *sources* that the kernel in the object folder compiles.

    Args:
        maker: the tree and its object folder, in which ``prepare`` was made.
        sources: paths of C files in the tree.

    Raises:
        CommandFailed: a Kbuild file cannot be read.
    """
    source_arch = _source_arch(maker)
    bits = "64" if "CONFIG_64BIT=y" in (maker.objects / ".config").read_text() else "32"
    wanted = [Path(name) for name in sources if _of_arch(name, source_arch)]
    of_arch = Path("arch") / source_arch
    by_makefile = (maker.tree / of_arch / "Makefile").read_text()
    asked: dict[Path, set[str]] = {}

    def listed(folder: Path) -> set[str]:
        if folder not in asked:
            asked[folder] = _listed(maker, source_arch, bits, folder)
        return asked[folder]

    def entered(folder: Path) -> bool:
        # By the top Makefile, and by the architecture's, which it includes.
        if folder.parent == Path() or folder == of_arch or f"{folder}/" in by_makefile:
            return True
        return entered(folder.parent) and str(folder) in listed(folder.parent)

    return [
        str(name.with_suffix(".o"))
        for name in sorted(wanted)
        if (maker.tree / name).is_file()
        and entered(name.parent)
        and str(name.with_suffix(".o")) in listed(name.parent)
    ]


def _source_arch(maker: Make) -> str:
    """Return the architecture's folder: that of i386 and x86_64 is x86."""
    name = maker.arch.kernel_arch
    return "x86" if name in ("i386", "x86_64") else name


def _of_arch(name: str, source_arch: str) -> bool:
    return not name.startswith("arch/") or name.startswith(f"arch/{source_arch}/")


def _listed(maker: Make, source_arch: str, bits: str, folder: Path) -> set[str]:
    """Return the objects and folders that *folder* builds, by their paths in the tree."""
    command = [
        "make",
        "--silent",
        f"--file={_RULES}",
        f"srctree={maker.tree}",
        # Where the rules look for the folder: older bases go by the second.
        f"srcroot={maker.tree}",
        f"VPATH={maker.tree}",
        "objtree=.",
        f"SRCARCH={source_arch}",
        f"BITS={bits}",
        f"obj={folder}",
        "enabled",
    ]
    what = f"reading {folder}/Makefile"
    return set(processes.run(command, what=what, cwd=maker.objects, without=INHERITED).split())
