"""Entry points are found in folders and archives of sys.path, without importing a package."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

import pytest

from envcheck.core import plugins

TEXT = """\
[console_scripts]
tool = other:main

[envcheck.vendors]
# a comment
tyche = tyche_cards
mine = site.parts:RECORDS.first [extra]

[envcheck.checks]
wheel = tyche_cards.checks:CHECKS
"""


def offer(folder: Path, name: str, text: str = TEXT) -> None:
    (folder / f"{name}-1.dist-info").mkdir(parents=True)
    (folder / f"{name}-1.dist-info" / "entry_points.txt").write_text(text)


def found(group: str) -> list[tuple[str, str]]:
    return [(point.name, point.value) for point in plugins.entry_points(group)]


def test_a_group_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names and values of one group, and of no other."""
    offer(tmp_path, "tyche")
    monkeypatch.setattr(sys, "path", [str(tmp_path)])

    assert found("envcheck.vendors") == [("tyche", "tyche_cards"), ("mine", "site.parts:RECORDS.first")]
    assert found("envcheck.checks") == [("wheel", "tyche_cards.checks:CHECKS")]
    assert found("envcheck.other") == []


def test_the_first_installation_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One package in two folders offers what the first has."""
    offer(tmp_path / "a", "tyche", "[envcheck.vendors]\ntyche = new\n")
    offer(tmp_path / "b", "tyche", "[envcheck.vendors]\ntyche = old\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "a"), str(tmp_path / "b"), str(tmp_path / "gone")])

    assert found("envcheck.vendors") == [("tyche", "new")]


def test_an_archive_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A zip file on the path; a file that is none offers nothing."""
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        archive.writestr("tyche-1.dist-info/entry_points.txt", TEXT)
    (tmp_path / "broken.zip").write_text("PK, perhaps")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "broken.zip"), str(tmp_path / "all.zip")])

    assert [name for name, _ in found("envcheck.vendors")] == ["tyche", "mine"]


def test_what_is_named_is_loaded() -> None:
    """A module, or an attribute of an attribute of it."""
    assert plugins.EntryPoint("m", "pathlib").load() is sys.modules["pathlib"]
    assert plugins.EntryPoint("f", "pathlib:Path.cwd").load() == Path.cwd
