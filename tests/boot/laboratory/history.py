"""A kernel tree with histories: the stock tree, and the patches of tests/data/bisect as commits."""

from __future__ import annotations

from pathlib import Path

from flatboot.common.git import git
from flatboot.kernel import sources, tree

DATA = Path(__file__).parents[2] / "data" / "bisect"


def make(folder: Path, base: str, *series: str) -> None:
    """Make *folder* a repository: *base* as a commit, and a branch for each of *series* on it.

    The base has the tag ``good``. A branch has the name of its file in ``DATA``; each line of the
    file names the patches of one commit, which has the message of the first.
    """
    folder.mkdir()
    tree.copy(sources.resolve(base), folder, "--reflink=auto")
    git(folder, "init", "--quiet", "--initial-branch=main")
    git(folder, "config", "user.name", "flatboot tests")
    git(folder, "config", "user.email", "tests@example.org")
    git(folder, "-c", "core.compression=1", "add", "--all", "--force")
    git(folder, "commit", "--quiet", "--message", f"Linux {base}")
    git(folder, "tag", "good")
    for name in series:
        git(folder, "checkout", "--quiet", "-b", name, "good")
        for line in (DATA / name).read_text().splitlines():
            first, *others = [DATA / patch for patch in line.split()]
            git(folder, "am", "--quiet", first)
            for other in others:
                git(folder, "apply", "--index", other)
                git(folder, "commit", "--quiet", "--amend", "--no-edit")
