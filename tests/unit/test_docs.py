"""What README and docs/ say is what there is: links, commands, figures, configs and kernels."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from typer.core import TyperGroup

from flatboot.cli import cli
from flatboot.common import paths
from flatboot.kernel import groups, kconfig

DOCS = paths.repo() / "docs"
PAGES = (paths.repo() / "README.md", paths.repo() / "CONTRIBUTING.md", *sorted(DOCS.glob("*.md")))
#: Groups of which README names what they give, word for word.
GIVEN = ("memory-map", "memory-behind-boot", "huge-page-pools", "zeroed-pages", "cpus-behind-boot")
page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


@page
def test_a_page_is_read_at_a_sitting(page: Path) -> None:
    assert len(page.read_text().splitlines()) <= 200


def test_every_page_can_be_found() -> None:
    linked = {
        (page.parent / target).resolve()
        for page in PAGES
        for target in re.findall(r"\]\(([^)#:]+\.md)", page.read_text())
    }
    assert set(DOCS.glob("*.md")) <= linked


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


def anchors(file: Path) -> set[str]:
    """Return the anchors that the headings of the Markdown *file* make."""
    headings = re.findall(r"^#+ (.*)$", file.read_text(), re.M)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@page
def test_links_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if "://" in link:
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def commands(text: str) -> Iterator[list[str]]:
    """Yield the words of each command line of flatboot in the Markdown *text*."""
    spans = re.findall(r"^    (?:.*\| *)?(?:sudo )?((?:\S*/)?flatboot (?!tests <).*)$", text, re.M)
    spans += re.findall(r"`((?:\S*/)?flatboot [^`]*)`", text)
    for span in spans:
        line = re.split(r"\s#\s|\s[|>]\s|\s*\\$", span)[0]
        yield shlex.split(line)[1:]


@page
def test_commands_and_their_options_are_there(page: Path) -> None:
    for words in commands(page.read_text()):
        command = typer.main.get_command(cli.application())
        rest = list(words)
        while isinstance(command, TyperGroup) and rest and not rest[0].startswith("-"):
            name = rest.pop(0)
            assert name in command.commands, words
            command = command.commands[name]
        known = {option for parameter in command.params for option in parameter.opts}
        known |= {option for parameter in command.params for option in parameter.secondary_opts}
        named = {word.partition("=")[0] for word in rest if re.fullmatch(r"--?[a-z][\w=-]*", word)}
        assert named <= known | {"--help"}, words


def tables() -> str:
    """Return all that `flatboot bench` made in README and docs/."""
    texts = [page.read_text() for page in PAGES]
    return "".join(re.findall(r"<!-- bench: .*?<!-- end -->", "".join(texts), re.DOTALL))


def test_figures_of_the_comparison_are_those_of_the_tables() -> None:
    made = tables()
    for figure in re.findall(r"\d[\d,]*\.\d+", (DOCS / "compared.md").read_text()):
        assert figure in made, figure


def test_what_readme_says_that_a_group_gives_is_what_the_group_says() -> None:
    text = (paths.repo() / "README.md").read_text()
    given = {group.name: group.gives for group in groups.every()}
    for name in GIVEN:
        assert given[name] in text
