"""What the unit tests of the kernel side are made of: a tiny kernel tree and its parts."""

from __future__ import annotations

import subprocess
from pathlib import Path

MAKEFILE = r"""
VERSION = 7
PATCHLEVEL = 3
SUBLEVEL = 4
EXTRAVERSION =
O ?= .
objects = $(patsubst mm/%.c,$(O)/%.o,$(wildcard mm/*.c))

tinyconfig:
	@mkdir -p $(O); echo '# CONFIG_MODULES is not set' > $(O)/.config
olddefconfig:
	@sed -i /CONFIG_LOST/d $(O)/.config
$(O)/%.o: mm/%.c
	@echo '  CC      mm/$*.o'
	@if grep BROKEN $<; then echo '$<:1: error: broken'; exit 1; fi
	@if grep -q SLOW $<; then touch $(O)/started; sleep 300; fi
	@cp $< $@
vmlinux: $(objects)
	@cat $(objects) > $(O)/vmlinux; echo map > $(O)/System.map
bzImage: vmlinux
	@mkdir -p $(O)/arch/x86/boot; cp $(O)/vmlinux $(O)/arch/x86/boot/bzImage
bindeb-pkg: vmlinux
	@cp $(O)/vmlinux $(O)/../linux-image-7.3.4$(LOCALVERSION)_$(KDEB_PKGVERSION)_amd64.deb
	@touch $(O)/../linux-image-7.3.4$(LOCALVERSION)-dbg_$(KDEB_PKGVERSION)_amd64.deb
	@touch $(O)/../linux-upstream_$(KDEB_PKGVERSION)_amd64.changes
"""

MERGE_CONFIG = """#!/bin/sh
shift 4
for file in "$@"; do cat "$file"; done >> .config
"""

KCONFIG = """
config TOP
	bool "top"

if TOP
menu "middle"
	depends on MODULES && !OTHER

config LOST
	bool "lost"
	depends on A || B
	help
		depends on nothing that this text says

endmenu
endif

config HIDDEN
	bool
"""

BASES = """
default = "7.3"
[bases."7.3"]
package = "linux-source-7.3"
suite = "some-suite"
version = "7.3.4-1"
sha256 = "b94d27b9934d3e08a52e52d7da7dabfac484efe37a5380ee9088f7ace2efcde9"
accepts = "7.3."
"""

CONFIGS = """
[bench]
fragments = ["bench.config", "arch"]
flatboot = ["groups"]
"""

GROUP = 'title = "{}"\ngives = "much"\nneeds = [{}]\nparameters = []\nsent_to = []\n'

HOOK = """\
Subject: mm: change a

Lines that matter.
---
diff --git a/mm/a.c b/mm/a.c
--- a/mm/a.c
+++ b/mm/a.c
@@ -2,3 +2,3 @@ line 1
 line 2
-line 3
+line three
 line 4
"""


def write(folder: Path, files: dict[str, str]) -> None:
    """Write *files*, by their paths in *folder*."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def git(folder: Path, *arguments: str) -> str:
    """Run git in *folder* and return its output."""
    done = subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True)
    return done.stdout.decode()
