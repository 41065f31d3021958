"""What docs/ says of configs and kernels is what there is."""

from __future__ import annotations

import re
import tomllib

from flatboot.common import paths
from flatboot.kernel import kconfig

DOCS = paths.repo() / "docs"


def test_each_config_is_told_what_it_is_there_for() -> None:
    text = (DOCS / "tests.md").read_text()
    told = set(re.findall(r"`([a-z0-9-]+)`", " ".join(re.findall(r"^\| (.*?) \|", text, re.M))))
    assert told == set(kconfig.names())


def test_each_kernel_of_the_tests_is_told_what_it_is_there_for() -> None:
    table = tomllib.loads((paths.repo() / "tests/boot/kernels.toml").read_text())
    text = (DOCS / "tests.md").read_text()
    told = re.findall(r"^\| (\w+), `(\w+)`, (\S+) \|", text, re.M)
    assert told == [
        (entry["flavour"], entry["config"], entry.get("arch", "x86-64"))
        for entry in table["kernel"]
    ]
