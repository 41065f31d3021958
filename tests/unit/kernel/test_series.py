"""Overlay and hooks as commits, and back: nothing is lost on the way."""

from __future__ import annotations

from pathlib import Path

import pytest
from fakes import HOOK, git, write

from flatboot.common.errors import FlatbootError, UsageError
from flatboot.kernel import checkpatch, groups, layer, series, sources, topics

SECOND = """\
From: Bob Builder <bob@example.org>
Subject: mm: change b, and a again

One paragraph.

  An indented line.
---
diff --git a/mm/a.c b/mm/a.c
--- a/mm/a.c
+++ b/mm/a.c
@@ -8,3 +8,2 @@ line 7
 line 8
-line 9
 line 10
diff --git a/mm/b.c b/mm/b.c
--- a/mm/b.c
+++ b/mm/b.c
@@ -1 +1,2 @@
 b
+b too
"""


@pytest.fixture
def work(checkout: Path, kernel_tree: Path, tmp_path: Path) -> Path:
    """A git tree of two topics, the second one with a program in the overlay."""
    write(
        checkout / "kernel/first",
        {
            "hooks/7.3/series": "change-a.patch\nchange-b.patch\n",
            "hooks/7.3/change-b.patch": SECOND,
            "overlay/tools/run.sh": "#!/bin/sh\n",
            "overlay.toml": '[topics]\n"change-a" = ["mm/new.c"]\n"change-b" = ["tools/run.sh"]\n',
        },
    )
    (checkout / "kernel/first/overlay/tools/run.sh").chmod(0o755)
    folder = tmp_path / "work"
    assert series.make_tree(sources.resolve(str(kernel_tree)), folder) == 2
    return folder


@pytest.fixture
def no_checkpatch(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tiny tree has no checkpatch."""
    monkeypatch.setattr(checkpatch, "check", lambda *_: [])


def snapshot(checkout: Path) -> dict[str, bytes]:
    root = checkout / "kernel"
    return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}


def commit(work: Path, message: str, *, author: str = "flatboot tests <tests@example.org>") -> None:
    git(work, "add", "-A")
    git(work, "commit", "-q", "-m", message, "--author", author)


def rebuilt(kernel_tree: Path, tmp_path: Path) -> str:
    """Return the hash of the content of a tree made anew."""
    series.make_tree(sources.resolve(str(kernel_tree)), tmp_path / "again")
    return git(tmp_path / "again", "rev-parse", "HEAD^{tree}")


def test_tree_has_a_commit_for_each_topic(work: Path, kernel_tree: Path) -> None:
    log = git(work, "log", "--reverse", "--format=%an: %s")
    assert log.splitlines() == [
        "flatboot tests: Linux 7.3.4",
        "flatboot tests: mm: change a",
        "Bob Builder: mm: change b, and a again",
    ]
    assert git(work, "show", "--name-only", "--format=", "HEAD~1").split() == ["mm/a.c", "mm/new.c"]
    assert git(work, "ls-tree", "HEAD", "tools/run.sh").startswith("100755")
    assert git(work, "status", "--porcelain") == ""
    assert git(work, "rev-parse", "base") == git(work, "rev-parse", "HEAD~2")
    assert "line 3\n" in (kernel_tree / "mm/a.c").read_text()


def test_unchanged_tree_comes_back_byte_for_byte(work: Path, checkout: Path) -> None:
    series.refresh(work)
    before = snapshot(checkout)
    assert before["first/hooks/7.3/change-a.patch"].decode() == HOOK
    assert before["first/hooks/7.3/change-b.patch"].decode() == SECOND
    assert series.refresh(work) == []
    assert snapshot(checkout) == before


def test_edits_come_back_to_the_same_tree(
    work: Path, checkout: Path, kernel_tree: Path, tmp_path: Path
) -> None:
    write(work, {"mm/new.c": "newer\n", "mm/third.c": "third\n", "Kconfig": "config THIRD\n"})
    (work / "tools/run.sh").chmod(0o644)
    message = "mm: a third thing\n\nWhy.\n\nTopic: second/third"
    commit(work, message, author="Eve Else <eve@example.org>")
    series.refresh(work)
    assert (checkout / "kernel/second/hooks/7.3/series").read_text() == "third.patch\n"
    assert (checkout / "kernel/second/overlay/mm/third.c").read_text() == "third\n"
    third = topics.read(groups.every(), "7.3")[2]
    assert (third.path, third.author) == ("second/third", "Eve Else <eve@example.org>")
    assert (third.subject, third.body) == ("mm: a third thing", "Why.")
    assert third.overlay == ("mm/third.c",)
    assert "+config THIRD" in third.diff
    assert "index " not in third.diff
    assert "+newer\n" in third.diff
    assert (checkout / "kernel/first/overlay/mm/new.c").read_text() == "new\n"
    assert rebuilt(kernel_tree, tmp_path) == git(work, "rev-parse", "HEAD^{tree}")


def test_edit_of_overlay_files_alone_makes_no_topic(
    work: Path, checkout: Path, kernel_tree: Path, tmp_path: Path
) -> None:
    write(work, {"mm/new.c": "newer\n"})
    commit(work, "mm: fix new")
    changed = series.refresh(work)
    assert checkout / "kernel/first/overlay/mm/new.c" in changed
    assert len(topics.read(groups.every(), "7.3")) == 2
    assert rebuilt(kernel_tree, tmp_path) == git(work, "rev-parse", "HEAD^{tree}")


@pytest.mark.usefixtures("no_checkpatch")
def test_later_group_changes_what_an_earlier_one_brings(
    work: Path, checkout: Path, kernel_tree: Path, tmp_path: Path
) -> None:
    write(work, {"mm/new.c": "new\nmore\n"})
    (work / "tools/run.sh").chmod(0o644)
    commit(work, "mm: more of new\n\nTopic: second/more")
    series.refresh(work)
    assert (checkout / "kernel/first/overlay/mm/new.c").read_text() == "new\n"
    assert (checkout / "kernel/first/overlay/tools/run.sh").stat().st_mode & 0o100
    more = topics.read(groups.every(), "7.3")[2]
    assert more.overlay == ()
    assert "+more\n" in more.diff
    assert "new mode 100644" in more.diff
    assert rebuilt(kernel_tree, tmp_path) == git(work, "rev-parse", "HEAD^{tree}")
    (checkout / "kernel/second/COVER.md").write_text("# second\n\nMore.\n")
    written = series.write_series(
        sources.resolve(str(kernel_tree)), tmp_path / "mails", group="second"
    )
    assert ["+more\n" in path.read_text() for path in written.patches] == [False, True]
    write(work, {"mm/new.c": "newer\nmore\n"})
    commit(work, "mm: fix new")
    with pytest.raises(FlatbootError, match="the commit 'mm: fix new' belongs to no group"):
        series.refresh(work)


def test_reworded_reordered_and_dropped(
    work: Path, checkout: Path, kernel_tree: Path, tmp_path: Path
) -> None:
    second, first = git(work, "rev-list", "base..HEAD").split()
    git(work, "reset", "-q", "--hard", "base")
    git(work, "cherry-pick", second, first)
    message = git(work, "log", "-1", "--format=%B").replace("mm: change a", "mm: alter a")
    git(work, "commit", "-q", "--amend", "-m", message)
    series.refresh(work)
    read = topics.read(groups.every(), "7.3")
    assert [topic.name for topic in read] == ["change-b", "change-a"]
    assert read[1].subject == "mm: alter a"
    git(work, "reset", "-q", "--hard", "HEAD~1")
    series.refresh(work)
    assert not (checkout / "kernel/first/hooks/7.3/change-a.patch").exists()
    assert not (checkout / "kernel/first/overlay/mm/new.c").exists()
    assert rebuilt(kernel_tree, tmp_path) == git(work, "rev-parse", "HEAD^{tree}")


def test_uncommitted_changes_are_refused(work: Path, checkout: Path) -> None:
    before = snapshot(checkout)
    write(work, {"mm/a.c": "edited\n"})
    with pytest.raises(FlatbootError, match=r"uncommitted changes \(1 files, first mm/a\.c\)"):
        series.refresh(work)
    git(work, "checkout", "-q", "mm/a.c")
    write(work, {"mm/untracked.c": "new\n"})
    with pytest.raises(FlatbootError, match=r"first mm/untracked\.c"):
        series.refresh(work)
    assert snapshot(checkout) == before


def test_merges_and_doubled_topics_are_refused(work: Path, checkout: Path) -> None:
    before = snapshot(checkout)
    message = git(work, "log", "-1", "--format=%B")
    write(work, {"mm/b.c": "twice\n"})
    commit(work, message)
    with pytest.raises(
        FlatbootError, match="two commits are the topic first/change-b: squash them"
    ):
        series.refresh(work)
    git(work, "reset", "-q", "--hard", "HEAD~1")
    git(work, "checkout", "-q", "-b", "side", "base")
    write(work, {"mm/side.c": "side\n"})
    commit(work, "mm: side")
    git(work, "merge", "-q", "--no-edit", "main")
    with pytest.raises(FlatbootError, match=r"has a merge .* rebase it into a line"):
        series.refresh(work)
    assert snapshot(checkout) == before


@pytest.mark.parametrize(
    ("topic", "complaint"),
    [
        ("", "the commit 'mm: x' belongs to no group: end its message with"),
        ("Topic: x", "the topic x/ is of no group that there is: first, second"),
        ("Topic: third/x", "the topic third/x is of no group that there is: first, second"),
    ],
)
def test_a_commit_needs_a_group(work: Path, checkout: Path, topic: str, complaint: str) -> None:
    before = snapshot(checkout)
    write(work, {"mm/b.c": "x\n"})
    commit(work, f"mm: x\n\n{topic}".strip())
    with pytest.raises(FlatbootError, match=complaint):
        series.refresh(work)
    assert snapshot(checkout) == before


def test_groups_keep_their_order(work: Path, checkout: Path) -> None:
    before = snapshot(checkout)
    for group, file in (("second", "mm/b.c"), ("first", "Kconfig")):
        write(work, {file: "x\n"})
        commit(work, f"mm: x\n\nTopic: {group}/x")
    with pytest.raises(FlatbootError, match="first/x comes after one of second: move its commit"):
        series.refresh(work)
    assert snapshot(checkout) == before


def test_group_that_the_base_has_not_keeps_its_files(work: Path, checkout: Path) -> None:
    second = checkout / "kernel/second"
    (second / "hooks/7.3/series").unlink()
    write(
        second, {"overlay/mm/second.c": "x\n", "overlay.toml": '[topics]\n"x" = ["mm/second.c"]\n'}
    )
    before = {path: path.read_bytes() for path in second.rglob("*") if path.is_file()}
    write(work, {"mm/b.c": "x\n"})
    commit(work, "mm: x\n\nTopic: first/x")
    series.refresh(work)
    assert {path: path.read_bytes() for path in second.rglob("*") if path.is_file()} == before
    assert [group.name for group in groups.chosen("7.3")] == ["first"]


def test_topic_that_the_base_has_not_keeps_its_files(
    work: Path, checkout: Path, kernel_tree: Path, tmp_path: Path
) -> None:
    first = checkout / "kernel/first"
    write(
        first,
        {
            "hooks/6.12/series": "other.patch\n",
            "hooks/6.12/other.patch": "Subject: mm: other\n\n---\n",
            "overlay/mm/other.c": "x\n",
            "overlay.toml": (first / "overlay.toml").read_text() + '"other" = ["mm/other.c"]\n',
        },
    )
    taken = groups.chosen("7.3", ["first"])
    assert "mm/other.c" not in layer.overlay(taken, "7.3")
    series.refresh(work)
    assert layer.owners(taken[0])["other"] == ("mm/other.c",)
    assert (first / "overlay/mm/other.c").is_file()
    series.make_tree(sources.resolve(str(kernel_tree)), tmp_path / "again")
    assert not (tmp_path / "again/mm/other.c").exists()
    (first / "hooks/6.12/series").unlink()
    (first / "hooks/6.12/other.patch").unlink()
    series.refresh(work)
    assert not (first / "overlay/mm/other.c").exists()
    assert "other" not in layer.owners(taken[0])


def test_message_that_mail_would_cut_is_refused(work: Path) -> None:
    write(work, {"mm/b.c": "x\n"})
    commit(work, "mm: x\n\nbefore\n---\nafter\n\nTopic: first/x")
    with pytest.raises(FlatbootError, match="the message of 'mm: x' has a line '---'"):
        series.refresh(work)


def test_tree_is_not_made_over_something(checkout: Path, kernel_tree: Path, tmp_path: Path) -> None:
    write(tmp_path / "full", {"file": "x"})
    with pytest.raises(UsageError, match="is there already"):
        series.make_tree(sources.resolve(str(kernel_tree)), tmp_path / "full")


def test_failed_tree_leaves_nothing(checkout: Path, kernel_tree: Path, tmp_path: Path) -> None:
    (kernel_tree / "mm/a.c").write_text("other\n")
    before = sorted(tmp_path.iterdir())
    with pytest.raises(
        FlatbootError, match=r"change-a.patch of the group first does not apply: mm/a.c hunk 1"
    ):
        series.make_tree(sources.resolve(str(kernel_tree)), tmp_path / "work")
    assert sorted(tmp_path.iterdir()) == before


def test_not_a_tree_of_ours(checkout: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no git tag base"):
        series.refresh(tmp_path)


def test_new_files_are_not_hidden_by_debians_ignores(
    checkout: Path, kernel_tree: Path, tmp_path: Path
) -> None:
    (kernel_tree / ".gitignore").write_text("*.o\n/*\n!/debian/\n")
    series.make_tree(sources.resolve(str(kernel_tree)), tmp_path / "work")
    write(tmp_path / "work", {"mm/another.c": "x\n"})
    assert git(tmp_path / "work", "status", "--porcelain") == "?? mm/another.c\n"


@pytest.mark.usefixtures("no_checkpatch")
def test_mail_series_applies_to_the_base(
    work: Path, checkout: Path, kernel_tree: Path, tmp_path: Path
) -> None:
    output = tmp_path / "mails"
    write(output, {"0007-of-an-earlier-series.patch": "x", "notes": "kept"})
    written = series.write_series(sources.resolve(str(kernel_tree)), output)
    names = [path.name for path in written.patches]
    assert names == [
        "0001-mm-change-a.patch",
        "0002-mm-change-b-and-a-again.patch",
    ]
    assert sorted(path.name for path in output.iterdir()) == [*names, "notes"]
    text = written.patches[1].read_text()
    assert "Signed-off-by: flatboot tests <tests@example.org>" in text
    assert "Topic:" not in text
    tree = git(work, "rev-parse", "HEAD^{tree}")
    git(work, "reset", "-q", "--hard", "base")
    git(work, "am", "-q", *(str(path) for path in written.patches))
    assert git(work, "rev-parse", "HEAD^{tree}") == tree
    assert git(work, "log", "-1", "--format=%an") == "Bob Builder\n"


@pytest.mark.usefixtures("no_checkpatch")
def test_series_of_a_group_leaves_out_what_it_needs(
    work: Path, checkout: Path, kernel_tree: Path, tmp_path: Path
) -> None:
    write(work, {"mm/third.c": "third\n"})
    commit(work, "mm: a third thing\n\nTopic: second/third")
    series.refresh(work)
    source = sources.resolve(str(kernel_tree))
    with pytest.raises(FlatbootError, match=r"second has no cover letter: write .*COVER\.md"):
        series.write_series(source, tmp_path / "mails", group="second")
    letter = (
        "# mm: what is second\n\nWhy.\n\n<!-- bench: x -->\n\nA table.\n\n<!-- end -->\n\nMore.\n"
    )
    (checkout / "kernel/second/COVER.md").write_text(letter)
    written = series.write_series(source, tmp_path / "mails", group="second").patches
    names = ["0000-cover-letter.patch", "0001-mm-a-third-thing.patch"]
    assert [path.name for path in written] == names
    cover = written[0].read_text()
    assert "Subject: [PATCH 0/1] mm: what is second\n" in cover
    assert "\n\nWhy.\n\nA table.\n\nMore.\n\n" in cover
    assert "***" not in cover


def test_series_needs_somebody_to_sign_it(
    checkout: Path, kernel_tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", "/dev/null")
    git(checkout, "config", "--unset", "user.email")
    with pytest.raises(FlatbootError, match=r"set git config user\.name and user\.email"):
        series.write_series(sources.resolve(str(kernel_tree)), tmp_path / "mails")


@pytest.mark.parametrize(
    ("table", "complaint"),
    [
        ("[topics]\n", "mm/new.c belongs to no topic"),
        ('[topics]\nchange-a = ["mm/new.c", "mm/gone.c"]\n', "mm/gone.c is not in overlay/"),
        ('[topics]\nchange-a = ["mm/new.c", "mm/new.c"]\n', "mm/new.c belongs to two topics"),
        ('[topics]\nother = ["mm/new.c"]\n', "topic other has no patch"),
    ],
)
def test_overlay_table_must_be_right(checkout: Path, table: str, complaint: str) -> None:
    (checkout / "kernel/first/overlay.toml").write_text(table)
    with pytest.raises(FlatbootError, match=complaint):
        topics.read(groups.every(), "7.3")


def test_patch_without_a_subject_is_refused() -> None:
    with pytest.raises(FlatbootError, match=r"x\.patch must have a Subject line"):
        topics.parse("first", "x", "diff --git a/a b/a\n", [])


def test_patch_as_git_writes_it_is_read() -> None:
    text = (
        "From 0123456789 Mon Sep 17 00:00:00 2001\nFrom: A <a@b>\nDate: now\n"
        "Subject: [PATCH v2 3/7] mm: a subject that\n goes on\n\nBody.\n---\n mm/a.c | 2 +-\n\n"
        "diff --git a/mm/a.c b/mm/a.c\n"
    )
    topic = topics.parse("first", "x", text, ["b", "a"])
    assert topic.subject == "mm: a subject that goes on"
    assert (topic.author, topic.body) == ("A <a@b>", "Body.")
    assert topic.diff == "diff --git a/mm/a.c b/mm/a.c\n"
    assert topic.overlay == ("a", "b")
    assert topics.parse("first", "x", topic.format(), topic.overlay) == topic


def test_tree_of_a_folder_leaves_out_its_repository_and_objects(
    checkout: Path, kernel_tree: Path, tmp_path: Path
) -> None:
    git(kernel_tree, "init", "-q")
    git(kernel_tree, "add", "-A")
    (kernel_tree / "mm/a.o").write_text("object")
    series.make_tree(sources.resolve(str(kernel_tree)), tmp_path / "work")
    assert not (tmp_path / "work/mm/a.o").exists()
    assert git(tmp_path / "work", "rev-list", "--count", "HEAD") == "2\n"
