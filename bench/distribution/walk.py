"""A newcomer's walk on a bare Debian 13, from git clone to the login on the new kernel.

    sudo .venv/bin/python bench/distribution/walk.py

makes a bare Debian in the cache, 20 GB with all that is built in it, types the commands there, in
which nothing of this machine's cache is seen, and keeps how long each took in
bench/distro-walk.json.
"""

from __future__ import annotations

import functools
import json
import shutil
import tempfile
import time
from pathlib import Path

from rich.table import Table

from flatboot.campaign.kept import Kept
from flatboot.common import atomic, paths, processes, progress, typed
from flatboot.distro import user_space
from flatboot.kernel import fetch

#: What he clones.
_SOURCE = "/mnt/flatboot.git"
#: Whom this machine trusts, which its mirrors may need.
_TRUSTED = Path("/etc/ssl/certs/ca-certificates.crt")
_COMMANDS = (
    "apt-get update && apt-get install --yes git",
    f"git clone {_SOURCE} flatboot",
    "cd flatboot && ./flatboot parameters vm --deb .",
    "cd flatboot && ./flatboot distro --kernels debian --memory 2G,64G",
    "cd flatboot && ./flatboot distro --kernels flatboot --base 6.12 --memory 2G,64G,1T",
)
#: What a folder needs to be a machine of its own, and the command in it.
_MACHINE = """
mount --rbind /dev "$1/dev"
mount -t proc proc "$1/proc"
mount -t sysfs sysfs "$1/sys"
exec env -i HOME=/root TERM=dumb PATH=/usr/sbin:/usr/bin chroot "$1" sh -c "cd && $2"
"""


def _path() -> Path:
    return paths.repo() / "bench/distro-walk.json"


def bare(folder: Path) -> Path:
    """Return a bare Debian 13, made in *folder*.

    Raises:
        FlatbootError: there is no mirror, or what makes it fails.
    """
    root = folder / "root"
    mirror = fetch.mirror(fetch.APT_DIR)
    what = f"making a bare {user_space.SUITE} of {mirror}"
    with progress.step(what):
        processes.run(["mmdebstrap", "--variant=apt", user_space.SUITE, root, mirror], what=what)
    for name in ("etc/resolv.conf", "etc/hosts"):
        shutil.copyfile(f"/{name}", root / name)
    shutil.copyfile(_TRUSTED, root / "etc/trusted.crt")
    (root / "etc/pip.conf").write_text("[global]\ncert = /etc/trusted.crt\n")
    clone = ["git", "clone", "--quiet", "--bare"]
    processes.run([*clone, paths.repo(), f"{root}{_SOURCE}"], what="git clone")
    return root


def types(root: Path, command: str) -> float:
    """Return how long *command* took in *root*, in seconds.

    Raises:
        CommandFailed: it failed.
    """
    shell = ["sh", "-e", "-c", _MACHINE, "sh", str(root), command]
    own = ["unshare", "--mount", "--pid", "--fork", "--kill-child", *shell]
    began = time.monotonic()
    processes.run(own, what=command, on_line=functools.partial(print, flush=True))
    return time.monotonic() - began


def table(kept: Kept) -> Table:
    """Return how long each command took, of the last walk; none is typed."""
    made = Table(title="On a bare Debian 13, two cores")
    made.add_column("what is typed")
    made.add_column("minutes", justify="right")
    for command, taken_s in typed.load(_path(), dict[str, float]).items():
        made.add_row(command, f"{taken_s / 60:.1f}")
    return made


def main() -> None:
    """Walk, and keep the times once he is at the end."""
    with (
        processes.sigterm_raises(),
        processes.hang_up_terminates(),
        tempfile.TemporaryDirectory(prefix="flatboot-walk-", dir=paths.cache()) as folder,
    ):
        root = bare(Path(folder))
        times = {}
        for command in _COMMANDS:
            print(f"# {command}", flush=True)
            times[command] = types(root, command)
    with atomic.new_file(_path()) as new:
        new.write_text(json.dumps(times, indent=1) + "\n")


if __name__ == "__main__":
    main()
