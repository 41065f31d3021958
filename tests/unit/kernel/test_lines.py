"""Lines of code: what counts, and what the groups of the memory map may have."""

from __future__ import annotations

from pathlib import Path

from fakes import write

from flatboot.kernel import bases, groups, lines

FILE = """\
// SPDX-License-Identifier: GPL-2.0-only
/*
 * What it is.
 */
#include <linux/mm.h>

/* one */
int one(void)	/* counts */
{
	return *pointer
		* 2; // counts
}
"""
HOOK = """\
Subject: mm: x

+ not in the message
---
diff --git a/mm/a.c b/mm/a.c
--- a/mm/a.c
+++ b/mm/a.c
@@ -1,2 +1,8 @@ x
 /*
+ * More of a comment.
+ *
  * Old.
  */
+int two;
+
+/* A comment. */
@@ -20,1 +26,3 @@ y
 x
+int three;
+	/* Begins here,
diff --git a/mm/Kconfig b/mm/Kconfig
--- a/mm/Kconfig
+++ b/mm/Kconfig
@@ -1 +1,2 @@
 x
+config NEW
diff --git a/mm/a_test.c b/mm/a_test.c
--- a/mm/a_test.c
+++ b/mm/a_test.c
@@ -1 +1,2 @@
 x
+int test;
"""


def test_what_counts(checkout: Path) -> None:
    write(
        checkout / "kernel/first",
        {
            "hooks/7.3/change-a.patch": HOOK,
            "overlay/mm/new.c": FILE,
            "overlay/mm/new_test.c": FILE,
            "overlay/include/trace/events/new.h": FILE,
            "overlay/Documentation/new.rst": FILE,
        },
    )
    (group,) = groups.chosen("7.3", ["first"])
    assert lines.own_files(group, "7.3") == 6
    assert lines.hooks(group, "7.3") == 2


def test_the_memory_map_is_as_small_as_its_idea() -> None:
    total = {
        group.name: lines.own_files(group, bases.default()) + lines.hooks(group, bases.default())
        for group in groups.chosen(bases.default(), ["memory-map-reserved"])
    }
    assert 500 < total["memory-map"] <= 1000
    names = ("sparse-ranges", "memory-map", "memory-map-reserved")
    assert sum(total[name] for name in names) <= 1800
