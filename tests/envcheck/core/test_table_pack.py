"""The packed tables of a wheel: the same content as the files of a checkout, in their place."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import tomli

from envcheck.core import table_pack, toml_file
from envcheck.core.errors import UsageError
from envcheck.core.messages import verbatim

TABLE = 'name = "两行\\n\\u2028"\n[part]\nsizes = [1, 2.5, true]\n'
RECIPE = f"# copied with its comments\n{TABLE}"


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a pack and without the packed files, in place of envcheck's own."""
    texts = {"launch/a.toml": TABLE, "launch/b.toml": "", "launch/in/c.toml": "", "installers/recipes/r.toml": RECIPE}
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    for package in ("launch", "installers"):
        paths = list((tmp_path / package).rglob("*.toml"))
        (tmp_path / package / table_pack.NAME).write_bytes(table_pack.pack_tables(tmp_path, paths, tomli.loads))
        for path in paths:
            path.unlink()
    monkeypatch.setattr(table_pack, "ROOT", tmp_path)
    yield tmp_path
    table_pack._read_lines.cache_clear()


def test_a_packed_table_is_that_of_its_file(wheel: Path) -> None:
    """Line ends and numbers come back; a table is found by the path of its file."""
    assert toml_file.load_own_table(wheel / "launch" / "a.toml") == tomli.loads(TABLE)
    assert table_pack.has_file(wheel / "launch" / "b.toml") and not table_pack.has_file(wheel / "launch" / "x.toml")


def test_files_to_be_copied_keep_their_text(wheel: Path) -> None:
    """A recipe has its comments, and is a table too."""
    path = wheel / "installers" / "recipes" / "r.toml"

    assert toml_file.read_text(path, 999, verbatim("recipe")) == RECIPE
    assert toml_file.load_own_table(path) == tomli.loads(RECIPE)


def test_a_folder_has_files_and_packed_tables(wheel: Path) -> None:
    """Sorted, without those of the folders below."""
    (wheel / "launch" / "aa.toml").write_text("")

    assert [path.name for path in toml_file.list_files(wheel / "launch")] == ["a.toml", "aa.toml", "b.toml"]


def test_a_file_comes_before_the_pack(wheel: Path) -> None:
    """Whoever puts a table back to change it gets his own."""
    (wheel / "launch" / "a.toml").write_text("mine = 1")

    assert toml_file.load_own_table(wheel / "launch" / "a.toml") == {"mine": 1}


def test_a_python_without_lzma_says_so(wheel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The remedy names the packages that Python is built with."""
    monkeypatch.setitem(sys.modules, "lzma", None)

    with pytest.raises(UsageError, match="no lzma module") as error:
        toml_file.list_files(wheel / "launch")
    assert "liblzma-dev" in str(error.value.next_step)


def test_the_own_tables_survive_packing() -> None:
    """Each table of envcheck has only what JSON can hold."""
    paths = [path for name in ("envcheck", "installers", "launch") for path in (table_pack.ROOT / name).rglob("*.toml")]
    tables = [path for path in paths if not path.relative_to(table_pack.ROOT).as_posix().startswith(table_pack.COPIED)]

    for path in tables:
        (line,) = table_pack.encode_tables(table_pack.ROOT, [path], tomli.loads)
        assert json.loads(line.partition("\t")[2]) == tomli.loads(path.read_text())
