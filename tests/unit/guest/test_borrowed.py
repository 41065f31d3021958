"""Programs of this machine, taken along into guests."""

from __future__ import annotations

import platform
import shutil
import subprocess
from pathlib import Path

import pytest

from flatboot.common import processes
from flatboot.common.errors import FlatbootError
from flatboot.guest import borrowed


def linked(folder: Path, name: str, code: str, *flags: str) -> Path:
    """Compile *code* to a program or library in *folder*."""
    source = folder / f"{name}.c"
    source.write_text(code)
    subprocess.run(["gcc", "-o", str(folder / name), str(source), *flags], check=True)
    return folder / name


def test_a_program_comes_with_all_that_it_needs_to_run(tmp_path: Path) -> None:
    """It runs with nothing but its files, by the loader that the program itself names."""
    found = borrowed.files("bash")
    root = tmp_path / "root"
    for name, path in found.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, root / name)
    loader = next(name for name in found if Path(name).name.startswith("ld-linux"))
    folders = {str((root / name).parent) for name in found if ".so" in name and name != loader}
    command = [str(root / loader), "--inhibit-cache", "--library-path", ":".join(folders)]
    said = subprocess.run(
        [*command, str(root / "bin/bash"), "-c", 'echo $((6 * 7)); echo "$(</proc/$$/maps)"'],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert said.splitlines()[0] == "42"
    mapped = {line.split()[-1] for line in said.splitlines() if ".so" in line}
    assert mapped and all(path.startswith(str(root)) for path in mapped)


def test_a_static_program_needs_nothing_else(tmp_path: Path) -> None:
    static = linked(tmp_path, "static", "int main(void) { return 0; }", "-static")
    assert borrowed.libraries(static) == {}


def test_a_thread_can_be_ended() -> None:
    """The library for that is opened when it is needed, so that no program names it."""
    names = {Path(name).name for name in borrowed.files("bash")}
    assert {"libc.so.6", "libgcc_s.so.1"} <= names


def test_a_program_that_only_root_runs_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = linked(tmp_path, "tool-of-root", "int main(void) { return 0; }", "-static")
    monkeypatch.setattr(processes, "SBIN", (str(tmp_path),))
    assert borrowed.files("tool-of-root") == {"bin/tool-of-root": tool}


@pytest.mark.parametrize(
    ("name", "advice"), [("kexec", "install kexec-tools"), ("emacs", "package that has emacs")]
)
def test_a_missing_program(
    name: str, advice: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(processes, "SBIN", ())
    with pytest.raises(FlatbootError, match=rf"^{name} is not there: .*{advice}"):
        borrowed.files(name)


def test_a_missing_library(tmp_path: Path) -> None:
    library = linked(tmp_path, "libgone.so", "int gone(void) { return 0; }", "-shared")
    code = "int gone(void); int main(void) { return gone(); }"
    program = linked(tmp_path, "program", code, str(library))
    library.rename(tmp_path / "elsewhere")
    with pytest.raises(FlatbootError, match="libgone"):
        borrowed.libraries(program)


def test_what_is_no_program_is_an_error(tmp_path: Path) -> None:
    static = linked(tmp_path, "static", "int main(void) { return 0; }", "-static")
    with pytest.raises(FlatbootError, match=r"ldd .* failed"):
        borrowed.libraries(static, tmp_path / "nothing")


def test_python_comes_with_its_modules(tmp_path: Path) -> None:
    """An interpreter that finds no other modules than those imports them."""
    found = borrowed.python("json", "subprocess")
    for name, path in found.items():
        if path.suffix in (".py", ".so"):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, tmp_path / name)
    library = next(tmp_path / name for name in found if name.endswith("/os.py")).parent
    said = subprocess.run(
        [str(found["bin/python3"]), "-S", "-c", "import json, subprocess; print(json.__file__)"],
        env={"PYTHONPATH": f"{library}:{library}/lib-dynload", "PYTHONHOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert said.startswith(str(tmp_path))


def test_another_architecture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    with pytest.raises(FlatbootError, match="this one is riscv64: use an x86-64 machine"):
        borrowed.files("bash")
