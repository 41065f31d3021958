"""The kernels that a guest of a distribution can run, as packages that its user installs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from flatboot.common.errors import check_known
from flatboot.kernel import bases, packages, parameters

#: What each is.
KERNELS = {
    "debian": "the one that Debian 13 comes with",
    "stock": "the base untouched, with Debian's config",
    "flatboot": "the base with overlay and hooks, with Debian's config",
}
_CONFIG = "debian-cloud"


@dataclass(frozen=True)
class DistroKernel:
    """A kernel for a guest.

    Attributes:
        name: of `KERNELS`.
        base: the name of the base that it is built from, if it is.
        profile: whose boot parameters its command line has; "" for none.
    """

    name: str
    base: str
    profile: str

    @property
    def parameters(self) -> str:
        """The boot parameters of the profile, as they stand on the command line."""
        return parameters.profile(self.profile).line if self.profile else ""

    @property
    def to_build(self) -> bool:
        """Whether its packages have to be built first."""
        return self.name != "debian" and not packages.is_built(self.base, self.name, _CONFIG)

    def package(self) -> Path | None:
        """Return its package, building it first if need be; None for Debian's own.

        Raises:
            FlatbootError: as `packages.deb`.
        """
        if self.name == "debian":
            return None
        return packages.image(packages.deb(self.base, self.name, _CONFIG))


def kernel(name: str, base: str, profile: str) -> DistroKernel:
    """Return the kernel *name* of *base*; flatboot's has the boot parameters of *profile*.

    Raises:
        UsageError: there is no such kernel, base or profile.
    """
    check_known("kernel", name, KERNELS)
    parameters.profile(profile)
    return DistroKernel(name, bases.load(base).name, profile if name == "flatboot" else "")
