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


def write_entry_points(folder: Path, name: str, text: str = TEXT) -> None:
    (folder / f"{name}-1.dist-info").mkdir(parents=True)
    (folder / f"{name}-1.dist-info" / "entry_points.txt").write_text(text)


def list_entry_points(group: str) -> list[tuple[str, str]]:
    return [(point.name, point.value) for point in plugins.find_entry_points(group)]


def test_a_group_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names and values of one group, and of no other."""
    write_entry_points(tmp_path, "tyche")
    monkeypatch.setattr(sys, "path", [str(tmp_path)])

    assert list_entry_points("envcheck.vendors") == [("tyche", "tyche_cards"), ("mine", "site.parts:RECORDS.first")]
    assert list_entry_points("envcheck.checks") == [("wheel", "tyche_cards.checks:CHECKS")]
    assert list_entry_points("envcheck.other") == []


def test_the_first_installation_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One package in two folders offers what the first has."""
    write_entry_points(tmp_path / "a", "tyche", "[envcheck.vendors]\ntyche = new\n")
    write_entry_points(tmp_path / "b", "tyche", "[envcheck.vendors]\ntyche = old\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "a"), str(tmp_path / "b"), str(tmp_path / "gone")])

    assert list_entry_points("envcheck.vendors") == [("tyche", "new")]


def test_an_archive_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Entry points are read from a zip file on sys.path; a file that is not an archive has none."""
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        archive.writestr("tyche-1.dist-info/entry_points.txt", TEXT)
    (tmp_path / "broken.zip").write_text("PK, perhaps")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "broken.zip"), str(tmp_path / "all.zip")])

    assert [name for name, _ in list_entry_points("envcheck.vendors")] == ["tyche", "mine"]


def test_what_is_named_is_loaded() -> None:
    """A module, or an attribute of an attribute of it."""
    assert plugins.EntryPoint("m", "pathlib").load_object() is sys.modules["pathlib"]
    assert plugins.EntryPoint("f", "pathlib:Path.cwd").load_object() == Path.cwd
