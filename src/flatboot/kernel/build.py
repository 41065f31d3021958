"""A kernel image from a tree, kept in the cache by the hash of all that it is made of."""

from __future__ import annotations

import functools
import hashlib
import json
import re
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from flatboot.common import arches, atomic, disk, paths, progress, typed
from flatboot.common.arches import Arch
from flatboot.common.errors import FlatbootError, UsageError, check_known
from flatboot.kernel import bases, groups, kconfig, layer, make, sources, tree
from flatboot.kernel.groups import Group
from flatboot.kernel.kconfig import Config
from flatboot.kernel.sources import Source

FLAVOURS = {
    "stock": "the base untouched",
    "flatboot": "the base with overlay and hooks",
}
_COMPILED = re.compile(r"^ +(?:CC|AS|HOSTCC|LD|AR)\b")


@dataclass
class BuildTally:
    """How many kernels this process built."""

    built: int = 0


tally = BuildTally()


@dataclass(frozen=True)
class KernelImage:
    """A built kernel in the cache.

    Attributes:
        directory: the folder with vmlinux, the bootable image, System.map, .config and build.json.
        base: the base's name, or the file name of the user's tree.
        version: the kernel's version, such as "7.3.4".
        flavour: "stock" or "flatboot".
        config: name of the config, or the path of the full .config.
        config_hash: SHA-256 of the options that the built .config sets.
        arch: name of the architecture.
        compiler: the first line of the compiler's --version.
        key: hash of all that went into the build.
    """

    directory: Path
    base: str
    version: str
    flavour: str
    config: str
    config_hash: str
    arch: str
    compiler: str
    key: str

    @property
    def vmlinux(self) -> Path:
        """The kernel as an ELF file."""
        return self.directory / "vmlinux"

    @property
    def image(self) -> Path:
        """The bootable image: bzImage on x86-64, Image on arm64."""
        return self.directory / Path(arches.load(self.arch).image).name

    @property
    def dotconfig(self) -> Path:
        """The .config that it was built with."""
        return self.directory / ".config"

    @property
    def system_map(self) -> Path:
        """The symbol table, System.map."""
        return self.directory / "System.map"


@dataclass(frozen=True)
class KernelName:
    """A kernel by its names, built when its image is asked for; see ``kernel`` for the fields."""

    flavour: str
    config: str
    arch: str = "x86_64"
    base: str = field(default_factory=bases.default)
    groups: tuple[str, ...] = ()

    def image(self) -> KernelImage:
        """Return the image, building it first if the cache does not have it; asked once."""
        return _image(self)


@functools.cache
def _image(name: KernelName) -> KernelImage:
    return kernel(name.base, name.flavour, name.config, name.arch, named=name.groups)


@dataclass(frozen=True)
class Request:
    """What is to be built, resolved from its names; ``groups`` is empty for the stock flavour."""

    source: Source
    flavour: str
    groups: tuple[Group, ...]
    config: Config
    arch: Arch
    cc: str

    @property
    def title(self) -> str:
        """What it is, for people."""
        name = Path(self.config.name).name
        some = f" of {len(self.groups)} groups" if self._partial else ""
        return f"{self.source.name}, {self.flavour}{some}, {name}, {self.arch.name}"

    @property
    def tree_name(self) -> str:
        """The name of the work tree: all kernels of some groups share one."""
        return f"{self.flavour}-groups" if self._partial else self.flavour

    @property
    def _partial(self) -> bool:
        return bool(self.groups) and self.groups != groups.chosen(self.source.base())

    @property
    def objects_name(self) -> str:
        """The name of the object folder in the work tree."""
        cc = Path(self.cc).name
        return f"o.{self.config.folder_name}-{self.arch.name}-{cc}"

    def layer(self) -> layer.Layer:
        """Return what the flavour adds to the source."""
        if self.flavour == "stock":
            return layer.Layer()
        try:
            return layer.of(self.source.directory(), self.groups, self.source.base())
        except layer.DoesNotApply as error:
            others = ",".join(groups.without(error.group, self.groups, self.source.base()))
            if not others:
                raise
            raise FlatbootError(f"{error}, or take others with --groups {others}") from error

    def layer_digest(self) -> str:
        """Return a hash of all that the layer is made of; "" for the stock flavour."""
        if self.flavour == "stock":
            return ""
        return layer.inputs_digest(self.groups, self.source.base())

    def key(self, compiler: str) -> str:
        """Return the hash of all that the image is made of."""
        parts = {
            "source": self.source.checksum,
            "layer": self.layer_digest(),
            "config": self.config.digest,
            "arch": self.arch.name,
            "compiler": compiler,
        }
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def request(
    base: str, flavour: str, config: str, arch: str, cc: str, named: Sequence[str] = ()
) -> Request:
    """Resolve the names of what is to be built.

    Raises:
        UsageError: one of them is unknown, or the stock flavour is to have groups.
        FlatbootError: the base cannot be fetched.
    """
    check_known("flavour", flavour, FLAVOURS)
    if flavour == "stock" and named:
        raise UsageError("the stock flavour has no groups: leave them out, or take flatboot")
    loaded = arches.load(arch)
    source = sources.resolve(base)
    taken = () if flavour == "stock" else groups.parts(source.base(), named)
    resolved = kconfig.resolve(config, taken, loaded, source.name)
    # make runs in another folder.
    command = str(Path(cc).resolve()) if "/" in cc else cc
    return Request(source, flavour, taken, resolved, loaded, command)


def kernel(
    base: str,
    flavour: str,
    config: str,
    arch: str = "x86_64",
    *,
    cc: str = "gcc",
    named: Sequence[str] = (),
) -> KernelImage:
    """Return the kernel image, building it first if the cache does not have it.

    Args:
        base: name of a base, or the path (with a slash in it) of a kernel tree or tarball.
        flavour: "stock" or "flatboot".
        config: name of a config, or the path of a full .config.
        arch: name of an architecture.
        cc: the compiler: gcc, gcc-13, clang, or a path.
        named: the groups of the flatboot flavour, or single patches as GROUP/PATCH; none for all.

    Raises:
        UsageError: one of the names is unknown.
        FlatbootError: the base cannot be fetched, a hook does not apply, an option did not take,
            the compiler failed, or the disk is full; nothing half-made is left.
    """
    with disk.full_is_an_error():
        wanted = request(base, flavour, config, arch, cc, named)
        compiler = make.compiler_version(wanted.arch, wanted.cc)
        key = wanted.key(compiler)
        final = _folder(key)
        if not final.is_dir():
            with tree.work_tree(wanted.source, wanted.tree_name, wanted.layer()) as where:
                if not final.is_dir():
                    _build(wanted, where, compiler, key, final)
        return load(final)


def is_built(name: KernelName) -> bool:
    """Return whether the cache has the image of *name*."""
    wanted = request(name.base, name.flavour, name.config, name.arch, "gcc", name.groups)
    return _folder(wanted.key(make.compiler_version(wanted.arch, wanted.cc))).is_dir()


def has_objects(name: KernelName) -> bool:
    """Return whether *name* was built before, so that most of it is compiled."""
    wanted = request(name.base, name.flavour, name.config, name.arch, "gcc", name.groups)
    return (tree.folder(wanted.source, wanted.tree_name) / wanted.objects_name / "vmlinux").exists()


def load(directory: Path) -> KernelImage:
    """Return the image in *directory*, as its build.json describes it."""
    return KernelImage(directory, **typed.load(directory / "build.json", dict[str, str]))


def _folder(key: str) -> Path:
    return paths.cache() / "kernels" / key[:32]


def _build(wanted: Request, where: Path, compiler: str, key: str, final: Path) -> None:
    maker = make.Make(where, where / wanted.objects_name, wanted.arch, wanted.cc)
    with progress.step(f"configuring {wanted.title}"):
        dotconfig = kconfig.configure(maker, wanted.config)
    compile_kernel(maker, wanted.title, "vmlinux", Path(wanted.arch.image).name)
    objects = maker.objects
    tally.built += 1
    with atomic.new_dir(final) as new:
        files = ["vmlinux", wanted.arch.image, "System.map", ".config"]
        for name in files:
            shutil.copy2((objects / name).resolve(), new / Path(name).name)
        if (objects / "Module.symvers").is_file():
            shutil.copy2(objects / "Module.symvers", new)
        image = KernelImage(
            directory=final,
            base=wanted.source.name,
            version=wanted.source.version(),
            flavour=wanted.flavour,
            config=wanted.config.name,
            config_hash=_options_hash(dotconfig),
            arch=wanted.arch.name,
            compiler=compiler,
            key=key,
        )
        fields = {name: value for name, value in asdict(image).items() if name != "directory"}
        (new / "build.json").write_text(json.dumps(fields, indent=2) + "\n")


def compile_kernel(maker: make.Make, title: str, *targets: str) -> None:
    """Make *targets*, showing how many objects are done.

    Raises:
        CommandFailed: a compiler error; the sentence ends in the last lines of the log.
    """
    what = f"building {title}"
    done = 0
    with progress.step(what) as step:

        def count(line: str) -> None:
            nonlocal done
            if _COMPILED.match(line):
                done += 1
                step.update(done, f"{done} objects")

        maker.run(*targets, what=what, log=maker.objects / "build.log", on_line=count)


def _options_hash(dotconfig: Path) -> str:
    options = kconfig.settings(dotconfig)
    text = "".join(f"{name}={value}\n" for name, value in sorted(options.items()))
    return hashlib.sha256(text.encode()).hexdigest()
