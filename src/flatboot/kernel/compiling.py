"""What compilers say of the files that a layer touches, in one config, that they do not of stock.

Only those files are compiled that the layer adds or changes, and that the config enables. Nothing
is linked: a name that no file defines is looked for among the symbols of the objects.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from flatboot.common import processes
from flatboot.kernel import enabled, make, tree
from flatboot.kernel.layer import Layer
from flatboot.kernel.make import Make, Target
from flatboot.kernel.sources import Source

_MESSAGE = re.compile(r"^(\S+?):\d+(?::\d+)?: (warning|error|fatal error): (.*)$", re.MULTILINE)
_FAILED = re.compile(r"^make\[\d+\]: \*\*\* \[\S+: (\S+\.o)\] Error", re.MULTILINE)
_ERROR = re.compile(r": (?:fatal )?error: ")
_UNDEFINED = re.compile(r"^\s+U (\w+)$", re.MULTILINE)
_DEFINED = re.compile(r"^[0-9a-f]+ [A-TV-Z] (\w+)$", re.MULTILINE)
_INCLUDED = re.compile(r'^# *include "(.*\.c)"', re.MULTILINE)
_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Tree:
    """A tree to compile in.

    Attributes:
        source: what it is made of.
        layer: what it adds to that; empty for stock.
        name: the name of its work tree.
    """

    source: Source
    layer: Layer
    name: str

    def code(self) -> list[str]:
        """Return the C files to compile for what the layer adds or changes.

        In place of one that others of its folder include, those are compiled.
        """
        mine = {
            name: _inclusions(name, file.content.decode())
            for name, file in self.layer.files.items()
            if file and name.endswith(".c")
        }
        every = {
            name: included
            for folder in {Path(name).parent for name in mine}
            for name, included in _included(self.source.directory(), folder).items()
        } | mine
        found: set[str] = set()
        for name in mine:
            found.update({other for other, names in every.items() if name in names} or {name})
        return sorted(found)


@dataclass(frozen=True)
class Attempt:
    """How files are compiled.

    Attributes:
        target: what for.
        cc: the compiler.
        folder: a name for the object folder; attempts with the same target and compiler share one.
        configure: makes the .config in the object folder.
        words: further words for make, such as W=1.
        goals: what is made besides the objects.
        anew: whether objects are compiled that are up to date: nothing is said of others.
    """

    target: Target
    cc: str
    folder: str
    configure: Callable[[Make], object]
    words: tuple[str, ...] = ()
    goals: tuple[str, ...] = ()
    anew: bool = True


@dataclass(frozen=True)
class Judgement:
    """What a layer adds to what the compiler says of stock.

    Attributes:
        files: how many files were compiled.
        objections: what is said of the layer alone, sorted.
        base_fails: whether stock does not compile either, so that little can be said.
    """

    files: int
    objections: tuple[str, ...]
    base_fails: bool


@dataclass(frozen=True)
class _Said:
    """What a compiler said: warnings and errors, and the names that no object defines."""

    compiled: tuple[str, ...]
    messages: frozenset[str]
    undefined: frozenset[str]
    config: str


def judge(ours: Tree, stock: Tree, attempt: Attempt, files: Sequence[str]) -> Judgement:
    """Compile those of *files* in *ours* that the config enables, and in *stock* if need be.

    The config of *stock* is the same, less what the base does not know. Names that nothing defines
    are looked for if all files that the layer touches are compiled.

    Raises:
        CommandFailed: the config cannot be made.
    """
    said = _say(ours, attempt, files)
    new = _new_names(ours, stock) if {*ours.code()} <= {*files} else set()
    undefined = {
        f"{name} is used, and nothing defines it"
        for name in said.undefined & new
        if not _is_in(stock.source.directory(), name)
    }
    before: frozenset[str] = frozenset()
    if said.messages:

        def the_same(maker: Make) -> None:
            maker.objects.mkdir(parents=True, exist_ok=True)
            (maker.objects / ".config").write_text(said.config)
            log = maker.objects / "config.log"
            maker.run("olddefconfig", what="the same config on stock", log=log)

        again = dataclasses.replace(attempt, configure=the_same)
        before = _say(stock, again, _spoken_of(said.messages, files)).messages
    return Judgement(
        files=len(said.compiled),
        objections=tuple(sorted(said.messages - before | undefined)),
        base_fails=any(_ERROR.search(message) for message in before),
    )


def messages_in(output: str) -> frozenset[str]:
    """Return the warnings and errors in a compiler's or sparse's *output*, less their line numbers.

    Without them, those of two trees can be compared.
    """
    said = {
        f"{match[1].removeprefix('../')}: {match[2]}: {match[3]}"
        for match in _MESSAGE.finditer(output)
    }
    return frozenset(said | {f"{name}: error: not made" for name in _FAILED.findall(output)})


def _spoken_of(messages: frozenset[str], files: Sequence[str]) -> Sequence[str]:
    """Return those of *files* that *messages* name; all, if one names a file that others include.

    What stock says of the others is not asked.
    """
    named = {re.sub(r"\.o$", ".c", message.partition(":")[0]) for message in messages}
    return sorted(named) if named <= {*files} else files


def _say(where: Tree, attempt: Attempt, files: Sequence[str]) -> _Said:
    """Compile those of *files* in a tree that the config enables."""
    with tree.work_tree(where.source, where.name, where.layer) as root:
        maker = make.Make(root, root / f"o.{attempt.folder}", attempt.target, attempt.cc)
        attempt.configure(maker)
        config = (maker.objects / ".config").read_text()
        log = maker.objects / "check.log"
        try:
            maker.run("prepare", what="make prepare", log=log)
        except processes.CommandFailed as error:
            failed = messages_in(error.output) | {"make prepare: error: it fails"}
            return _Said((), failed, frozenset(), config)
        objects = enabled.objects(maker, files)
        for name in objects if attempt.anew else ():
            (maker.objects / name).unlink(missing_ok=True)
        before = _made(maker, objects)
        output = ""
        if goals := [*objects, *attempt.goals]:
            try:
                output = maker.run("-k", *attempt.words, *goals, what="make", log=log)
            except processes.CommandFailed as error:
                output = error.output
        after = _made(maker, objects)
        compiled = tuple(n for n in objects if n not in after or after[n] != before.get(n))
        return _Said(compiled, messages_in(output), _undefined(maker, list(after)), config)


def _made(maker: Make, objects: Sequence[str]) -> dict[str, int]:
    """Return when those of *objects* that are there were made, in nanoseconds."""
    paths = {name: maker.objects / name for name in objects}
    return {name: path.stat().st_mtime_ns for name, path in paths.items() if path.is_file()}


def _undefined(maker: Make, objects: Sequence[str]) -> frozenset[str]:
    """Return the names that *objects* use and none of them defines."""
    if not objects:
        return frozenset()
    command = [f"{maker.arch.cross_compile}nm", *objects]
    output = processes.run(command, what="nm", cwd=maker.objects)
    return frozenset(_UNDEFINED.findall(output)) - frozenset(_DEFINED.findall(output))


def _new_names(ours: Tree, stock: Tree) -> set[str]:
    """Return the words of the files that *ours* touches which they do not have in *stock*.

    The linker defines those that its scripts name.
    """
    directory = stock.source.directory()
    code: set[str] = set()
    known: set[str] = set()
    for name, file in ours.layer.files.items():
        if file and name.endswith((".c", ".h")):
            by_linker = name.endswith(".lds.h")
            (known if by_linker else code).update(_WORD.findall(file.content.decode()))
            if (directory / name).is_file():
                known.update(_WORD.findall((directory / name).read_text()))
    return code - known


@functools.cache
def _included(directory: Path, folder: Path) -> dict[str, set[str]]:
    """Return which C files those in *folder* of the tree *directory* include, by their paths."""
    names = {str(path.relative_to(directory)): path for path in (directory / folder).glob("*.c")}
    return {name: _inclusions(name, path.read_text()) for name, path in names.items()}


def _inclusions(name: str, text: str) -> set[str]:
    """Return the paths of the C files that the *text* of the C file *name* includes."""
    return {str(Path(name).parent / found) for found in _INCLUDED.findall(text)}


@functools.cache
def _is_in(directory: Path, word: str) -> bool:
    """Return whether the code of the tree *directory* has *word*."""
    command = ["grep", "-rqwF", "--include=*.[chS]", word, str(directory)]
    try:
        processes.run(command, what="grep")
    except processes.CommandFailed as error:
        if error.status != 1:
            raise
        return False
    return True
