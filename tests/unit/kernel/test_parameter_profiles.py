"""Boot parameters by machine: a line, a table, and a package that GRUB reads."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from flatboot.cli import parameters_cli
from flatboot.common import paths, processes
from flatboot.common.errors import UsageError
from flatboot.kernel import groups, kconfig, parameters


def test_profiles_are_made_of_what_groups_bring() -> None:
    brought = {group.name: set(group.parameters) for group in groups.every()}
    for profile in parameters.profiles().values():
        for parameter in profile.parameters:
            assert parameter.text.partition("=")[0] in brought[parameter.group]


def test_each_group_of_a_profile_says_which_options_it_needs() -> None:
    every = {group.name: group for group in groups.every()}
    for profile in parameters.profiles().values():
        for parameter in profile.parameters:
            assert kconfig.options(every[parameter.group])


def test_a_line_to_paste(capsys: pytest.CaptureFixture[str]) -> None:
    parameters_cli.run("vm")
    assert capsys.readouterr().out == f"{parameters.profile('vm').line}\n"


def test_what_there_is_and_why(capsys: pytest.CaptureFixture[str]) -> None:
    parameters_cli.run()
    listed = capsys.readouterr().out
    assert all(name in listed for name in parameters.profiles())
    parameters_cli.run("server", why=True)
    assert "memory-map" in capsys.readouterr().out


def test_bad_requests(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="unknown profile 'laptop': choose one of vm, "):
        parameters_cli.run("laptop")
    with pytest.raises(UsageError, match="name a profile"):
        parameters_cli.run(why=True)
    with pytest.raises(UsageError, match="unknown profile"):
        parameters.deb("laptop", "A <a@example.org>", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_package_where_git_has_no_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flatboot.kernel.series.identity", lambda _: "")
    parameters_cli.run("vm", deb=tmp_path)
    [made] = tmp_path.glob("*.deb")
    control = processes.run(["dpkg-deb", "--field", made, "Maintainer"], what="dpkg-deb")
    assert control.strip() == parameters.NOBODY


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A root in which the package of the profile "server" is unpacked, as GRUB is to see it."""
    made = parameters.deb("server", "A <a@example.org>", tmp_path)
    root = tmp_path / "root"
    subprocess.run(["dpkg-deb", "--extract", made, root], check=True)
    settings = root / "etc/default/grub.d/flatboot.cfg"
    text = settings.read_text().replace("/usr/share/", f"{root}/usr/share/")
    settings.write_text(text)
    return root


def line(root: Path) -> str:
    """Return what GRUB's mkconfig makes of the settings."""
    script = f'. {root}/etc/default/grub.d/flatboot.cfg; echo "$GRUB_CMDLINE_LINUX"'
    ran = subprocess.run(
        ["sh", "-euc", script],
        env={"PATH": "/usr/bin:/bin", "GRUB_CMDLINE_LINUX": "quiet"},
        capture_output=True,
        text=True,
        check=True,
    )
    return ran.stdout.strip()


def test_grub_adds_the_line(installed: Path) -> None:
    assert line(installed) == f"quiet {parameters.profile('server').line}"


@pytest.mark.parametrize("chosen", ["", "vm", "of-another-version"])
def test_another_profile_is_chosen_in_the_settings(installed: Path, chosen: str) -> None:
    settings = installed / "etc/default/grub.d/flatboot.cfg"
    settings.write_text(settings.read_text().replace("PROFILE=server", f"PROFILE={chosen}"))
    added = f" {parameters.profile('vm').line}" if chosen == "vm" else ""
    assert line(installed) == f"quiet{added}"


def test_settings_that_stay_when_the_package_goes_add_nothing(installed: Path) -> None:
    for file in (installed / "usr/share" / parameters.PACKAGE).iterdir():
        file.unlink()
    assert line(installed) == "quiet"


def test_package_is_what_dpkg_takes(tmp_path: Path) -> None:
    made = parameters.deb("vm", "A <a@example.org>", tmp_path)
    shown = subprocess.run(
        ["dpkg-deb", "--field", made], capture_output=True, text=True, check=True
    ).stdout
    assert "Architecture: all" in shown
    assert "Maintainer: A <a@example.org>" in shown
    root = tmp_path / "root"
    for folder in ("var/lib/dpkg/updates", "var/lib/dpkg/info", "boot"):
        (root / folder).mkdir(parents=True)
    for file in ("status", "available"):
        (root / "var/lib/dpkg" / file).write_text("")
    dpkg = ["dpkg", f"--root={root}", "--force-not-root", "--force-script-chrootless"]
    settings = root / "etc/default/grub.d/flatboot.cfg"
    subprocess.run([*dpkg, "--install", made], check=True, capture_output=True)
    assert settings.is_file()
    subprocess.run([*dpkg, "--purge", parameters.PACKAGE], check=True, capture_output=True)
    assert not settings.exists()
    assert not (root / "usr/share" / parameters.PACKAGE).exists()


def test_they_are_told_in_the_manual() -> None:
    text = (paths.repo() / "README.md").read_text()
    for name in parameters.profiles():
        assert f"`{name}`" in text
