"""What a build robot would try: the configs, compilers and architectures of ``kernel check``."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from flatboot.common import arches, paths
from flatboot.kernel import compiling, groups, kconfig, layer, topics
from flatboot.kernel.compiling import Attempt, Judgement, Tree
from flatboot.kernel.groups import Group
from flatboot.kernel.kconfig import Config
from flatboot.kernel.layer import Layer
from flatboot.kernel.make import Make
from flatboot.kernel.sources import Source
from flatboot.kernel.targets import CompileTarget

#: Lines that every config made here gets: what nm cannot read, and what only takes time.
#: Instrumented code is compiled in the config that sparse looks at.
_ALWAYS = (
    "CONFIG_WERROR=n",
    "CONFIG_KASAN=n",
    "CONFIG_KCSAN=n",
    "CONFIG_KMSAN=n",
    "CONFIG_KCOV=n",
    "CONFIG_GCOV_KERNEL=n",
    "CONFIG_UBSAN=n",
    "CONFIG_DEBUG_INFO_NONE=y",
    "CONFIG_LTO_NONE=y",
    "CONFIG_GCC_PLUGINS=n",
    "CONFIG_RUST=n",
)
#: The one config in which sparse looks, too, and the one in which groups and patches are compiled.
_SPARSE_CONFIG, _STEP_CONFIG = "debug", "users"
#: Comments are read beside sparse, and where everything is configured for the first target by the
#: first compiler: what is wrong with them hangs on neither. Elsewhere python3 reads this in place
#: of the kernel's script.
_NO_COMMENTS = "KERNELDOC=/dev/null"


@dataclass(frozen=True)
class Compilation:
    """One thing to try.

    Attributes:
        row: the row of the table in which it counts, such as "s390x, gcc".
        title: what it is, with the seed if chance made it; ``--only`` repeats it by this name.
        lane: those with the same are done one after another, in work trees of their own.
        ours: makes the layer under judgement.
        attempt: how it is compiled.
        files: the C files that are compiled where the config enables them; none for all that the
            tree touches.
    """

    row: str
    title: str
    lane: str
    ours: Callable[[], Layer]
    attempt: Attempt
    files: tuple[str, ...] = ()

    def judge(self, source: Source) -> Judgement:
        """Return what the layer adds to what the compiler says of *source* without it."""
        ours = Tree(source, self.ours(), f"check-{self.lane}")
        stock = Tree(source, Layer(), f"check-{self.lane}-stock")
        return compiling.judge(ours, stock, self.attempt, self.files or ours.code())


@dataclass(frozen=True)
class Robot:
    """What is tried: the groups *taken* of *source*, with *compilers*, for *targets*.

    *seeds* are those of the random configs. With *long*, folders are compiled whole where all is
    configured, and the kernel is linked where nothing is.
    """

    source: Source
    taken: tuple[Group, ...]
    targets: tuple[CompileTarget, ...]
    compilers: tuple[str, ...]
    seeds: Sequence[int]
    long: bool
    ours: Layer = field(init=False)
    code: list[str] = field(init=False)

    def __post_init__(self) -> None:
        """Make the layer of all groups that are taken."""
        object.__setattr__(self, "ours", _layer(self.source, self.taken))
        object.__setattr__(self, "code", Tree(self.source, self.ours, "check").code())

    def trials(self) -> Iterator[Compilation]:
        """Yield what is to be tried, the quickest to fail first."""
        yield from self._patches()
        yield from self._groups()
        yield from self._sparse()
        for target in self.targets:
            for cc in self.compilers:
                yield from self._settled(target, cc)
        for seed in self.seeds:
            yield self._by_chance(seed)

    def _settled(self, target: CompileTarget, cc: str) -> Iterator[Compilation]:
        """Yield the configs that are the same each time: nothing, what is usual, everything."""
        every = (*target.forced, *_ALWAYS)
        built_on, ours = _fragment("built-on.config"), _options(self.taken)

        def nothing(maker: Make) -> None:
            _made(maker, "allnoconfig", every)

        def usual(maker: Make) -> None:
            _run(maker, target.defconfig)
            _on_top(maker, (*built_on, *(f"CONFIG_{name}=y" for name in ours), *every))

        def everything(maker: Make) -> None:
            _made(maker, "allmodconfig", every)

        linked = ("vmlinux",) if self.long else ()
        # The other compilers differ from the first mostly in what they warn of.
        first = cc == self.compilers[0]
        if self.long or first:
            yield self._trial("allnoconfig", target, cc, nothing, goals=linked)
            yield self._trial("defconfig", target, cc, usual, "W=1", _NO_COMMENTS)
        comments = first and target == self.targets[0]
        words = ("W=1",) if comments else ("W=1", _NO_COMMENTS)
        yield self._trial("allmodconfig", target, cc, everything, *words, whole=self.long)

    def _trial(
        self,
        title: str,
        target: CompileTarget,
        cc: str,
        configure: Callable[[Make], object],
        *words: str,
        goals: tuple[str, ...] = (),
        whole: bool = False,
        files: Sequence[str] = (),
    ) -> Compilation:
        row = f"{target.name}, {cc}"
        attempt = Attempt(target, cc, f"check-{target.name}-{cc}", configure, words, goals)
        files = self._whole_folders() if whole else files
        name = f"{title}, {row}"
        return Compilation(row, name, target.name, lambda: self.ours, attempt, tuple(files))

    def _whole_folders(self) -> list[str]:
        """Return all C files of the folders that the groups touch."""
        folders = {Path(name).parent for name in self.code}
        directory = self.source.directory()
        there = {
            str(path.relative_to(directory))
            for folder in folders
            for path in (directory / folder).glob("*.c")
        }
        return sorted(there.union(self.code))

    def _by_chance(self, seed: int) -> Compilation:
        """Return a config that *seed* draws: options of ours on or off, a quarter of the files."""
        draw = random.Random(seed)
        target, cc = draw.choice(self.targets), draw.choice(self.compilers)
        ours = [f"CONFIG_{name}={draw.choice('yn')}" for name in _options(self.taken)]
        code = self.code
        files = code if self.long else sorted(draw.sample(code, (len(code) + 3) // 4))

        def configure(maker: Make) -> None:
            lines = (*ours, *target.forced, *_ALWAYS)
            _made(maker, "randconfig", lines, f"KCONFIG_SEED={seed}")

        return self._trial(f"chance {seed}", target, cc, configure, files=files)

    def _sparse(self) -> Iterator[Compilation]:
        """Yield sparse and W=1 where it is known that all the features are on."""
        for name in arches.names():
            arch = arches.load(name)
            config = kconfig.resolve(_SPARSE_CONFIG, self.taken, arch, self.source.name)
            attempt = Attempt(
                arch,
                "gcc",
                f"sparse-{name}",
                functools.partial(_named, config),
                ("C=2", "W=1"),
            )
            title = f"sparse, {name}"
            yield Compilation(title, title, "sparse", lambda: self.ours, attempt)

    def _groups(self) -> Iterator[Compilation]:
        """Yield each group with nothing but what it needs, with its options."""
        base = self.source.base()
        for group in self.taken:
            taken = groups.chosen(base, [group.name])
            ours = functools.partial(_layer, self.source, taken)
            yield self._step("each group alone", group.name, ours, taken, whole=True)

    def _patches(self) -> Iterator[Compilation]:
        """Yield the tree after each patch; what a patch leaves as it was is not compiled again."""
        base = self.source.base()
        series = topics.read(self.taken, base)
        patches, overlay = layer.patches(self.taken, base), layer.overlay(self.taken, base)

        def after(number: int) -> Layer:
            done = series[:number]
            return topics.layer_after(done, patches, overlay, self.source.directory())

        for number, topic in enumerate(series, 1):
            ours = functools.partial(after, number)
            yield self._step("each patch", topic.path, ours, self.taken, whole=False)

    def _step(
        self,
        kind: str,
        name: str,
        ours: Callable[[], Layer],
        taken: Sequence[Group],
        *,
        whole: bool,
    ) -> Compilation:
        arch = arches.load("x86_64")
        config = kconfig.resolve(_STEP_CONFIG, taken, arch, self.source.name)

        def configure(maker: Make) -> None:
            if whole:
                _named(config, maker)
            else:
                # Without all patches of a group, its options do not take.
                _made(maker, "alldefconfig", [text.read_text() for text in config.files])

        lane = kind.replace(" ", "-")
        attempt = Attempt(arch, "gcc", lane, configure, anew=whole)
        return Compilation(f"{kind}, gcc", f"{kind}: {name}", lane, ours, attempt)


def _layer(source: Source, taken: Sequence[Group]) -> Layer:
    """Return what the groups *taken* add to *source*."""
    return layer.of(source.directory(), taken, source.base())


def _options(taken: Sequence[Group]) -> list[str]:
    """Return the options of the groups *taken*, those of their tests too."""
    return [name for group in taken for name in kconfig.options(group, tests=True)]


def _fragment(name: str) -> list[str]:
    """Return the lines of a fragment of kernel/configs."""
    text = (paths.kernel_dir() / "configs" / name).read_text()
    return [line for line in text.splitlines() if line.startswith("CONFIG_")]


def _named(config: Config, maker: Make) -> None:
    """Make a config of the project's own."""
    kconfig.configure(maker, config)


def _made(maker: Make, target: str, lines: Sequence[str], *words: str) -> None:
    """Make the config that make's *target* makes where *lines* are given."""
    maker.objects.mkdir(parents=True, exist_ok=True)
    given = maker.objects / "given.config"
    given.write_text("".join(f"{line}\n" for line in lines))
    _run(maker, f"KCONFIG_ALLCONFIG={given}", *words, target)


def _on_top(maker: Make, lines: Sequence[str]) -> None:
    """Put *lines* on top of the .config that is there."""
    dotconfig = maker.objects / ".config"
    dotconfig.write_text(dotconfig.read_text() + "".join(f"{line}\n" for line in lines))
    _run(maker, "olddefconfig")


def _run(maker: Make, *words: str) -> None:
    maker.run(*words, what=f"make {words[-1]}", log=maker.objects / "config.log")
