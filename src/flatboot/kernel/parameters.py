"""Boot parameters by the machine that they are for: kernel/parameters.toml, and a package of it."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from flatboot.common import atomic, paths, processes, typed
from flatboot.common.errors import check_known

PACKAGE = "flatboot-parameters"
#: The package's version: that of what kernel/parameters.toml says.
VERSION = "1"
_CONTROL = f"""\
Package: {PACKAGE}
Version: {VERSION}
Architecture: all
Maintainer: {{maintainer}}
Section: kernel
Priority: optional
Description: boot parameters of flatboot kernels for GRUB
 Adds a line of boot parameters to all entries of GRUB's menu. Which one, of
 /usr/share/{PACKAGE}, stands in /etc/default/grub.d/flatboot.cfg. Kernels
 that do not know them boot as they always did.
"""
_GRUB = f"""\
# Which boot parameters the entries of GRUB's menu get, of those in
# /usr/share/{PACKAGE}: {{names}}; nothing for none.
# After a change: update-grub
FLATBOOT_PROFILE={{profile}}

if [ -r "/usr/share/{PACKAGE}/$FLATBOOT_PROFILE" ] && [ -n "$FLATBOOT_PROFILE" ]; then
	GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX $(cat "/usr/share/{PACKAGE}/$FLATBOOT_PROFILE")"
fi
"""
#: Both after installing and after removing: by then the file of GRUB is there, or gone.
_UPDATE = """\
#!/bin/sh
set -e
if command -v update-grub >/dev/null && [ -d /boot/grub ]; then
	update-grub
fi
"""
_SETTINGS = "etc/default/grub.d/flatboot.cfg"
#: The maintainer of a package that somebody makes for himself.
NOBODY = f"{PACKAGE} <root@localhost>"


@dataclass(frozen=True)
class Parameter:
    """One boot parameter.

    Attributes:
        text: as it stands on the command line.
        group: the name of the group that brings it.
        why: what it gives, a phrase.
        costs: what it costs, a phrase.
    """

    text: str
    group: str
    why: str
    costs: str


@dataclass(frozen=True)
class Profile:
    """The boot parameters for a kind of machine, which *machine* names."""

    machine: str
    parameters: list[Parameter]

    @property
    def line(self) -> str:
        """The parameters as they stand on the kernel's command line."""
        return " ".join(parameter.text for parameter in self.parameters)


@dataclass(frozen=True)
class _ProfilesFile:
    profiles: dict[str, Profile]


def profiles() -> dict[str, Profile]:
    """Return all profiles by their name."""
    return typed.load(paths.kernel_dir() / "parameters.toml", _ProfilesFile).profiles


def profile(name: str) -> Profile:
    """Return the profile *name*.

    Raises:
        UsageError: there is none of that name.
    """
    there = profiles()
    check_known("profile", name, there)
    return there[name]


def deb(name: str, maintainer: str, folder: Path) -> Path:
    """Make a Debian package of all profiles in *folder*, in which GRUB takes the profile *name*.

    Raises:
        UsageError: there is no such profile.
        processes.CommandFailed: dpkg-deb failed.
    """
    profile(name)
    there = profiles()
    made = folder / f"{PACKAGE}_{VERSION}_all.deb"
    files = {
        "DEBIAN/control": _CONTROL.format(maintainer=maintainer),
        "DEBIAN/conffiles": f"/{_SETTINGS}\n",
        "DEBIAN/postinst": _UPDATE,
        "DEBIAN/postrm": _UPDATE,
        _SETTINGS: _GRUB.format(names=", ".join(there), profile=name),
        **{f"usr/share/{PACKAGE}/{each}": f"{there[each].line}\n" for each in there},
    }
    with tempfile.TemporaryDirectory(prefix="flatboot-parameters-") as scratch:
        for path, text in files.items():
            file = Path(scratch) / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
            file.chmod(0o755 if text.startswith("#!") else 0o644)
        Path(scratch).chmod(0o755)
        folder.mkdir(parents=True, exist_ok=True)
        with atomic.new_file(made) as new:
            command = ["dpkg-deb", "--root-owner-group", "--build", scratch, str(new)]
            processes.run(command, what="dpkg-deb")
    return made
