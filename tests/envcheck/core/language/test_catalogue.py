"""The catalogues are complete: every message of the sources is there, translated, with its values; none is fuzzy."""

from __future__ import annotations

import io
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from string import Formatter

import pytest
from babel.messages.catalog import Catalog, Message

from envcheck.checks import CHECKS
from envcheck.cli import message_catalogue
from envcheck.core import language
from envcheck.core.messages import _
from envcheck.deep import check_table

FILES = sorted(message_catalogue.ROOT.glob(message_catalogue.CATALOGUES))


@pytest.fixture(scope="module")
def extracted() -> Catalog:
    return message_catalogue.extract_catalogue()


def entries(found: Catalog) -> Iterator[Message]:
    return (entry for entry in found if entry.id)


def forms(text: str | tuple[str, ...] | list[str]) -> tuple[str, ...]:
    return (text,) if isinstance(text, str) else tuple(text)


def holes(text: str) -> set[str]:
    """The named values of a template; text without values may contain any brace."""
    try:
        return {name for _text, name, _spec, _conversion in Formatter().parse(text) if name is not None}
    except ValueError:
        return set()


def test_there_is_a_catalogue() -> None:
    """The tests below look at something."""
    assert [file.parts[-3] for file in FILES] == ["zh_CN"]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.parts[-3])
def test_every_message_is_in_the_catalogue(file: Path, extracted: Catalog) -> None:
    """`make messages` was run: nothing new is missing, nothing that is gone is kept."""
    known = {forms(entry.id) for entry in entries(message_catalogue.read_catalogue(file))}
    needed = {forms(entry.id) for entry in entries(extracted)}

    assert sorted(needed - known) == []
    assert sorted(known - needed) == []


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.parts[-3])
def test_every_message_is_translated(file: Path) -> None:
    """None is empty, and none is fuzzy: whoever changes an English sentence reads its translation again."""
    found = list(entries(message_catalogue.read_catalogue(file)))

    assert [entry.id for entry in found if not all(forms(entry.string))] == []
    assert [entry.id for entry in found if entry.fuzzy] == []


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.parts[-3])
def test_translations_keep_their_values(file: Path) -> None:
    """A translation uses only values of its message; it may omit one, such as a plural `s`."""
    strange = [
        (entry.id, entry.string)
        for entry in entries(message_catalogue.read_catalogue(file))
        if not set().union(*map(holes, forms(entry.string))) <= set().union(*map(holes, forms(entry.id)))
    ]

    assert strange == []


def test_chinese_has_full_width_marks() -> None:
    """No Chinese clause ends with a mark of English."""
    found = [
        text
        for file in FILES
        for entry in entries(message_catalogue.read_catalogue(file))
        for text in forms(entry.string)
    ]

    assert [text for text in found if re.search(r"[一-鿿] ?[,;:!?](?:\s|$)|[一-鿿]\.$", text)] == []


def test_what_checks_promise_is_extracted(extracted: Catalog) -> None:
    """The docstring of each judge is what `--list-checks` prints of it."""
    promised = {" ".join(check.description.split()) for check in (*CHECKS, *check_table.make_checks(cards=False))}

    assert sorted(text for text in promised if text not in extracted) == []


def test_a_changed_message_is_a_new_one(tmp_path: Path) -> None:
    """It has no translation, and the test above fails until it has one."""
    source = tmp_path / "envcheck" / "locale" / "zh_CN" / "LC_MESSAGES" / "envcheck.po"
    source.parent.mkdir(parents=True)
    shutil.copyfile(message_catalogue.ROOT / message_catalogue.MAPPING, tmp_path / message_catalogue.MAPPING)
    module = tmp_path / "envcheck" / "checks.py"
    module.write_text('_("The driver {version} is older than the toolkit needs")\n')
    message_catalogue.write_catalogue(source, Catalog(locale="zh_CN", fuzzy=False))
    message_catalogue.update_catalogues(tmp_path)
    found = message_catalogue.read_catalogue(source)
    found["The driver {version} is older than the toolkit needs"].string = "驱动 {version} 早于工具包要求"
    message_catalogue.write_catalogue(source, found)

    module.write_text('_("The driver {version} is older than this toolkit needs")\n')
    message_catalogue.update_catalogues(tmp_path)

    assert [(entry.id, entry.string) for entry in entries(message_catalogue.read_catalogue(source))] == [
        ("The driver {version} is older than this toolkit needs", "")
    ]


def test_a_vendor_brings_its_own_catalogue(tmp_path: Path, chinese: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """What envcheck's catalogue does not have is looked up in those of other distributions."""
    source = tmp_path / "acme" / "locale" / "zh_CN" / "LC_MESSAGES" / "envcheck.po"
    source.parent.mkdir(parents=True)
    own = Catalog(locale="zh_CN", fuzzy=False)
    own.add("acme-smi lists {count} boards", "acme-smi 列出 {count} 块板卡")
    message_catalogue.write_catalogue(source, own)
    message_catalogue.compile_catalogues(tmp_path)
    monkeypatch.setattr(language, "CATALOGUE_FOLDERS", [tmp_path / "acme" / "locale"])

    assert language.translate(_("acme-smi lists {count} boards", count=2)) == "acme-smi 列出 2 块板卡"
    assert language.translate(_("not checked")) == "未检查"


def test_part_of_another_row_is_no_message() -> None:
    """A row of codes may point to a part of another row, which is extracted there."""
    rows = b'[frob]\nseven = "x | a meaning of it | a remedy of it"\neight = "x | @seven | the other remedy"\n'
    found = message_catalogue.extract_toml(io.BytesIO(rows), (), (), {"meanings": "yes"})

    assert [text for _line, _kind, text, _notes in found] == ["a meaning of it", "a remedy of it", "the other remedy"]
