"""Hooks and overlay: what applies, what does not, and how that is told."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from fakes import HOOK, write

from flatboot.common.errors import FlatbootError
from flatboot.kernel import groups, layer


def make(tree: Path) -> layer.Layer:
    return layer.of(tree, groups.every(), "7.3")


def test_layer_has_the_patched_and_the_new_files(checkout: Path, kernel_tree: Path) -> None:
    made = make(kernel_tree)
    assert sorted(made.files) == ["mm/a.c", "mm/new.c"]
    patched = made.files["mm/a.c"]
    assert patched is not None
    assert patched.content.splitlines()[1:4] == [b"line 2", b"line three", b"line 4"]
    assert "line 3\n" in (kernel_tree / "mm/a.c").read_text()


def test_repository_around_the_cache_does_not_matter(
    checkout: Path, kernel_tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (checkout / "scratch").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(checkout / "scratch"))
    monkeypatch.setenv("GIT_DIR", str(checkout / ".git"))
    patched = make(kernel_tree).files["mm/a.c"]
    assert patched is not None
    assert b"line three" in patched.content


def test_removed_file(checkout: Path, kernel_tree: Path) -> None:
    removal = (
        "Subject: mm: drop b\n\n---\ndiff --git a/mm/b.c b/mm/b.c\ndeleted file mode 100644\n"
        "--- a/mm/b.c\n+++ /dev/null\n@@ -1 +0,0 @@\n-b\n"
    )
    write(
        checkout / "kernel/first/hooks/7.3",
        {"drop-b.patch": removal, "series": "change-a.patch\ndrop-b.patch\n"},
    )
    assert make(kernel_tree).files["mm/b.c"] is None


def test_hook_that_does_not_apply_names_file_and_hunk(checkout: Path, kernel_tree: Path) -> None:
    second = "@@ -8,3 +8,3 @@\n line 8\n-line nine\n+line 9.0\n line 10\n"
    (checkout / "kernel/first/hooks/7.3/change-a.patch").write_text(HOOK + second)
    with pytest.raises(FlatbootError) as caught:
        make(kernel_tree)
    assert str(caught.value) == (
        "hook 7.3/change-a.patch of the group first does not apply: mm/a.c hunk 2; write the hook"
        " anew for this tree"
    )


def test_hook_on_a_file_that_the_tree_lacks(checkout: Path, kernel_tree: Path) -> None:
    (kernel_tree / "mm/a.c").unlink()
    with pytest.raises(FlatbootError, match=r"does not apply: mm/a.c is not in the tree;"):
        make(kernel_tree)


def test_context_must_match_exactly(checkout: Path, kernel_tree: Path) -> None:
    (checkout / "kernel/first/hooks/7.3/change-a.patch").write_text(
        HOOK.replace("line 2", "line two")
    )
    with pytest.raises(FlatbootError, match=r"mm/a.c hunk 1"):
        make(kernel_tree)


def test_overlay_must_not_hide_a_file_of_the_tree(checkout: Path, kernel_tree: Path) -> None:
    write(checkout / "kernel/first/overlay", {"mm/b.c": "mine\n"})
    with pytest.raises(FlatbootError, match=r"has the file mm/b\.c of the overlay already"):
        make(kernel_tree)


def test_hook_changes_what_an_earlier_group_brings(checkout: Path, kernel_tree: Path) -> None:
    more = (
        "Subject: mm: more\n\n---\ndiff --git a/mm/new.c b/mm/new.c\n"
        "--- a/mm/new.c\n+++ b/mm/new.c\n@@ -1 +1,2 @@\n new\n+more\n"
    )
    write(
        checkout / "kernel/second/hooks/7.3",
        {"more.patch": more, "series": "more.patch\n"},
    )
    made = make(kernel_tree).files["mm/new.c"]
    assert made is not None
    assert made.content == b"new\nmore\n"
    first = groups.chosen("7.3", ["first"])
    alone = layer.of(kernel_tree, first, "7.3")
    assert alone.files["mm/new.c"] == layer.File(b"new\n")


def test_series_and_patches_must_agree(checkout: Path) -> None:
    hooks = checkout / "kernel/first/hooks/7.3"
    (hooks / "stray.patch").write_text(HOOK)
    with pytest.raises(FlatbootError, match=r"series does not list stray.patch"):
        layer.series(hooks)
    (hooks / "series").write_text("change-a.patch\nstray.patch\ngone.patch\n")
    with pytest.raises(FlatbootError, match=r"lists gone.patch, which is not there"):
        layer.series(hooks)


def test_digest_sees_every_input(checkout: Path) -> None:
    hooks = checkout / "kernel/first/hooks/7.3"
    seen = {layer.inputs_digest(groups.every(), "7.3")}
    (hooks / "change-a.patch").write_text(f"A better message.\n\n{HOOK}")
    assert layer.inputs_digest(groups.every(), "7.3") in seen
    (hooks / "change-a.patch").write_text(HOOK + "\n")
    seen.add(layer.inputs_digest(groups.every(), "7.3"))
    (checkout / "kernel/first/overlay/mm/new.c").write_text("newer\n")
    seen.add(layer.inputs_digest(groups.every(), "7.3"))
    (checkout / "kernel/first/overlay/mm/new.c").chmod(0o755)
    seen.add(layer.inputs_digest(groups.every(), "7.3"))
    assert len(seen) == 4
