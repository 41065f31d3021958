"""What a compiler says, as it is compared."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from flatboot.kernel import compiling
from flatboot.kernel.compiling import Attempt, Tree
from flatboot.kernel.layer import File, Layer
from flatboot.kernel.sources import Source
from flatboot.kernel.targets import CompileTarget

TARGET = CompileTarget("x86_64", "", ("x86_64",), "defconfig", ())


def test_messages_are_compared_without_line_numbers() -> None:
    output = (
        "../mm/a.c:12:3: warning: symbol 'x' was not declared\n"
        "  CC      mm/a.o\n../include/linux/mm.h:7: error: bad\n../mm/a.c:90: note: see here\n"
        "../mm/b.c:1:10: fatal error: c.h: No such file or directory\n"
        "make[3]: *** [../scripts/Makefile.build:287: mm/b.o] Error 1\n"
        "make[2]: *** [../scripts/Makefile.build:544: mm] Error 2\n"
    )
    assert compiling.messages_in(output) == {
        "mm/a.c: warning: symbol 'x' was not declared",
        "include/linux/mm.h: error: bad",
        "mm/b.c: fatal error: c.h: No such file or directory",
        "mm/b.o: error: not made",
    }


def tree(folder: Path, name: str, **files: str) -> Tree:
    source = Source("base", "0" * 64, folder=folder)
    paths = {key.replace("__", "/").replace("_dot_", "."): text for key, text in files.items()}
    return Tree(source, Layer({path: File(text.encode()) for path, text in paths.items()}), name)


def test_files_that_others_include_are_not_compiled_alone(tmp_path: Path) -> None:
    ours = tree(
        tmp_path,
        "ours",
        mm__a_dot_c='#include "b.c"\n',
        mm__b_dot_c="",
        mm__d_dot_h="",
        mm__e_dot_c="",
    )
    assert ours.code() == ["mm/a.c", "mm/e.c"]


def test_what_includes_a_file_that_is_touched_is_compiled(tmp_path: Path) -> None:
    (tmp_path / "kernel" / "sched").mkdir(parents=True)
    including = '# include "rt.c"\n#include "own.c"\n'
    (tmp_path / "kernel" / "sched" / "build_policy.c").write_text(including)
    (tmp_path / "kernel" / "rt.c").write_text("")
    ours = tree(tmp_path, "ours", kernel__sched__rt_dot_c="", kernel__rt_dot_c="")
    assert ours.code() == ["kernel/rt.c", "kernel/sched/build_policy.c"]


def said(messages: set[str], undefined: set[str]) -> compiling._Said:
    return compiling._Said(("mm/a.o",), frozenset(messages), frozenset(undefined), "")


@pytest.mark.parametrize(
    ("messages", "before", "undefined", "objections", "base_fails"),
    [
        (set(), None, set(), (), False),
        ({"a: warning: w"}, {"a: warning: w"}, set(), (), False),
        ({"a: warning: w", "a: warning: x"}, {"a: warning: w"}, set(), ("a: warning: x",), False),
        ({"a: error: e"}, {"a: error: e"}, set(), (), True),
        ({"a: error: e"}, set(), set(), ("a: error: e",), False),
        (set(), None, {"known"}, (), False),
        (set(), None, {"by_linker"}, (), False),
        (set(), None, {"elsewhere"}, (), False),
        (set(), None, {"missing"}, ("missing is used, and nothing defines it",), False),
    ],
)
def test_what_stock_says_as_well_is_left_out(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    messages: set[str],
    before: set[str] | None,
    undefined: set[str],
    objections: tuple[str, ...],
    base_fails: bool,
) -> None:
    base = tmp_path / "base"
    (base / "mm").mkdir(parents=True)
    (base / "mm" / "a.c").write_text("void known(void);\n")
    (base / "mm" / "z.c").write_text("void elsewhere(void) { }\n")
    ours = tree(
        base,
        "ours",
        mm__a_dot_c="void known(void); void missing(void); void elsewhere(void); by_linker;\n",
        include__link_dot_lds_dot_h="by_linker = .;\n",
    )
    stock = Tree(ours.source, Layer(), "stock")
    answers = {"ours": said(messages, undefined)}
    if before is not None:
        answers["stock"] = said(before, set())
    monkeypatch.setattr(compiling, "_say", lambda where, attempt, files: answers[where.name])
    attempt = Attempt(TARGET, "gcc", "o", lambda maker: None)
    verdict = compiling.judge(ours, stock, attempt, ["mm/a.c"])
    assert verdict.objections == objections
    assert verdict.base_fails == base_fails


@pytest.mark.parametrize(
    ("messages", "asked"),
    [
        ({"mm/a.c: warning: w", "mm/b.o: error: not made"}, ["mm/a.c", "mm/b.c"]),
        ({"mm/a.c: warning: w", "include/linux/mm.h: warning: w"}, ["mm/a.c", "mm/b.c", "mm/c.c"]),
        ({"mm/included.c: warning: w"}, ["mm/a.c", "mm/b.c", "mm/c.c"]),
        ({"make prepare: error: it fails"}, ["mm/a.c", "mm/b.c", "mm/c.c"]),
    ],
)
def test_stock_is_asked_for_what_is_objected_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, messages: set[str], asked: list[str]
) -> None:
    compiled: dict[str, list[str]] = {}

    def say(where: Tree, attempt: Attempt, files: Sequence[str]) -> compiling._Said:
        compiled[where.name] = [*files]
        return said(messages, set())

    monkeypatch.setattr(compiling, "_say", say)
    ours = tree(tmp_path, "ours", mm__a_dot_c="")
    stock = Tree(ours.source, Layer(), "stock")
    attempt = Attempt(TARGET, "gcc", "o", lambda maker: None)
    compiling.judge(ours, stock, attempt, ["mm/a.c", "mm/b.c", "mm/c.c"])
    assert compiled == {"ours": ["mm/a.c", "mm/b.c", "mm/c.c"], "stock": asked}


def test_what_a_file_that_is_left_out_defines_is_not_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = tree(tmp_path, "ours", mm__a_dot_c="other();\n", mm__b_dot_c="int other(void);\n")
    stock = Tree(ours.source, Layer(), "stock")
    monkeypatch.setattr(compiling, "_say", lambda where, attempt, files: said(set(), {"other"}))
    attempt = Attempt(TARGET, "gcc", "o", lambda maker: None)
    assert compiling.judge(ours, stock, attempt, ["mm/a.c"]).objections == ()
    assert compiling.judge(ours, stock, attempt, ["mm/a.c", "mm/b.c"]).objections
