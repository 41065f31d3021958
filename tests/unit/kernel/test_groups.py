"""Groups: what is taken with what, what is refused, and that their files say what is so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from fakes import GROUP, write

from flatboot.common import paths
from flatboot.common.errors import FlatbootError, UsageError
from flatboot.common.git import git
from flatboot.kernel import bases, build, groups, layer

_INCLUDE = re.compile(r'^\+?#include [<"](\S+\.h)[>"]', re.MULTILINE)
_PARAMETER = re.compile(r'^(?:early_param|__setup)\("([^"=]+)=?", ', re.MULTILINE)


def taken(*wanted: str) -> list[str]:
    return [group.name for group in groups.chosen("7.3", wanted)]


def test_what_is_needed_is_taken_in_order(checkout: Path) -> None:
    assert taken() == taken("second") == taken("second", "first") == ["first", "second"]
    assert taken("first") == ["first"]


def test_single_patches_are_taken_with_what_their_group_needs(checkout: Path) -> None:
    hooks = checkout / "kernel/second/hooks/7.3"
    write(hooks, {"series": "one.patch\ntwo.patch\n", "one.patch": "", "two.patch": ""})
    found = groups.parts("7.3", ["second/two"])
    assert [path.stem for path in layer.patches(found, "7.3")] == ["change-a", "two"]
    assert groups.parts("7.3", ["second/two", "second"]) == groups.parts("7.3", [])


def test_unknown_patch_lists_what_there_is(checkout: Path) -> None:
    with pytest.raises(
        UsageError, match="unknown patch of the group first, 'b': choose one of change-a"
    ):
        groups.parts("7.3", ["first/b"])


def test_unknown_group_lists_what_there_is(checkout: Path) -> None:
    with pytest.raises(UsageError, match="unknown group 'third': choose one of first, second"):
        groups.chosen("7.3", ["first", "third"])


def test_base_that_lacks_a_group(checkout: Path) -> None:
    (checkout / "kernel/second/hooks/7.3/series").unlink()
    assert taken() == ["first"]
    with pytest.raises(UsageError, match=r"group second has no patches for 7\.3, which has first"):
        groups.chosen("7.3", ["second"])


def test_base_that_lacks_what_is_needed(checkout: Path) -> None:
    (checkout / "kernel/first/hooks/7.3/series").unlink()
    with pytest.raises(UsageError, match=r"group first has no patches for 7\.3, which has second"):
        groups.chosen("7.3", ["second"])


def test_need_that_was_left_out_by_hand(checkout: Path) -> None:
    (checkout / "kernel/groups.toml").write_text('groups = ["second"]\n')
    with pytest.raises(FlatbootError, match="needs first, which does not come before second"):
        groups.every()


def test_group_that_is_listed_and_not_there(checkout: Path) -> None:
    (checkout / "kernel/groups.toml").write_text('groups = ["first", "third"]\n')
    with pytest.raises(FlatbootError, match=r"lists third, but there is no .*/group\.toml"):
        groups.every()


def test_group_that_is_there_and_not_listed(checkout: Path) -> None:
    write(checkout / "kernel/third", {"group.toml": GROUP.format("nobody knows", "")})
    with pytest.raises(FlatbootError, match=r"groups\.toml does not list third: add or remove it"):
        groups.every()


def test_some_groups_make_another_kernel(checkout: Path, kernel_tree: Path) -> None:
    write(
        checkout / "kernel/second",
        {"overlay/mm/second.c": "second\n", "options.config": "CONFIG_SECOND=y\n"},
    )
    both = build.kernel(str(kernel_tree), "flatboot", "bench")
    one = build.kernel(str(kernel_tree), "flatboot", "bench", named=["first"])
    assert "second\n" in both.vmlinux.read_text()
    assert "second\n" not in one.vmlinux.read_text()
    assert "SECOND" not in one.dotconfig.read_text()
    assert build.kernel(str(kernel_tree), "flatboot", "bench", named=["second"]) == both
    assert build.kernel(str(kernel_tree), "flatboot", "bench") == both
    with pytest.raises(UsageError, match="the stock flavour has no groups"):
        build.kernel(str(kernel_tree), "stock", "bench", named=["first"])


def test_tree_to_which_one_group_applies_and_another_does_not(
    checkout: Path, kernel_tree: Path
) -> None:
    patch = (
        "Subject: mm: change b\n\n---\ndiff --git a/mm/b.c b/mm/b.c\n--- a/mm/b.c\n"
        "+++ b/mm/b.c\n@@ -1 +1 @@\n-not what it is\n+c\n"
    )
    write(
        checkout / "kernel",
        {
            "groups.toml": 'groups = ["first", "second", "third"]\n',
            "third/group.toml": GROUP.format("what stands alone", ""),
            "third/hooks/7.3/series": "change-b.patch\n",
            "third/hooks/7.3/change-b.patch": patch,
        },
    )
    with pytest.raises(FlatbootError) as caught:
        build.kernel(str(kernel_tree), "flatboot", "bench")
    assert str(caught.value) == (
        "hook 7.3/change-b.patch of the group third does not apply: mm/b.c hunk 1; write the hook"
        " anew for this tree, or take others with --groups first,second"
    )
    build.kernel(str(kernel_tree), "flatboot", "bench", named=["second"])


@pytest.mark.parametrize("group", groups.every(), ids=lambda group: group.name)
def test_parameters_are_those_of_the_code(group: groups.Group) -> None:
    """Those of files that are there for tests alone are left out."""
    files = [path for path in group.overlay.rglob("*.c") if not path.stem.endswith("_test")]
    texts = [path.read_text() for path in files]
    served = [base for base in bases.with_hooks() if group.serves(base)]
    patches = [patch.read_text() for base in served for patch in layer.patches([group], base)]
    texts += ["\n".join(re.findall(r"^\+(.*)", text, re.MULTILINE)) for text in patches]
    assert set(group.parameters) == {name for text in texts for name in _PARAMETER.findall(text)}


@pytest.mark.parametrize("group", groups.every(), ids=lambda group: group.name)
def test_what_a_group_gives_stands_in_its_letter(group: groups.Group) -> None:
    figures = re.findall(r"\d[\d,]*\.\d+%?|\d[\d,]{3,}", group.gives)
    letter = (group.folder / "COVER.md").read_text()
    assert figures or group.gives.startswith("nothing by itself")
    for figure in figures:
        assert re.search(rf"(?<![\d.,]){re.escape(figure)}(?![\d])", letter), figure


@pytest.mark.parametrize("group", groups.every(), ids=lambda group: group.name)
def test_a_group_includes_no_header_of_one_that_it_does_not_need(group: groups.Group) -> None:
    base = next(name for name in bases.with_hooks() if group.serves(name))
    taken = groups.chosen(base, [group.name])
    theirs = {
        path.name
        for other in groups.chosen(base)
        if other not in taken
        for path in other.overlay.rglob("*.h")
    } - {path.name for own in taken for path in own.overlay.rglob("*.h")}
    own = [path.read_text() for path in group.overlay.rglob("*.[ch]")]
    added = [path.read_text() for path in layer.patches([group], base)]
    included = {Path(name).name for text in (*own, *added) for name in _INCLUDE.findall(text)}
    assert not included & theirs


#: What single patches of ``fixes`` mend, or wait for less, saves no instructions.
SAVE_NONE = {
    "acpi-pm-verify-async",
    "ice-later-cpus",
    "isolation-slab",
    "its-memreserve",
    "mce-later-cpus",
    "mpt3sas-later-cpus",
    "octeontx2-later-cpus",
    "osnoise-boot",
    "perf-ht-later-cpus",
    "qedi-later-cpus",
    "sched-late-servers",
    "tracers-later-cpus",
    "vmxnet3-later-cpus",
}


def test_single_patches_tell_what_they_save() -> None:
    """Their messages tell what the published table does."""
    table = (paths.repo() / "docs/groups.md").read_text()
    for patch in layer.patches(groups.chosen("7.3", ["fixes"]), "7.3"):
        told = re.search(r"takes ([\d,]+) instructions less,\s(\d\.\d\d%)", patch.read_text())
        assert (told is None) == (patch.stem in SAVE_NONE), patch.stem
        if told:
            assert f"| fixes/{patch.stem} | {told[1]} | {told[2]} |" in table


def test_the_commit_is_that_of_what_is_compiled(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet")
    patch = tmp_path / "kernel/first/hooks/7.3/a.patch"
    for path in (patch, tmp_path / "README.md"):
        write(tmp_path, {str(path.relative_to(tmp_path)): "text\n"})
        git(tmp_path, "add", "--all")
        name = ("-c", "user.name=a", "-c", "user.email=a@localhost")
        git(tmp_path, *name, "commit", "--quiet", "--message", path.name)
    first = git(tmp_path, "log", "--format=%h").split()[-1]
    assert groups.commit(tmp_path) == first
    patch.write_text("other\n")
    assert groups.commit(tmp_path) == f"{first}+"
