"""The compiled catalogue has hashes for keys: each translation is found, and added catalogues work behind it."""

from __future__ import annotations

from pathlib import Path

import pytest
from babel.messages.catalog import Catalog
from babel.messages.mofile import write_mo

from envcheck.cli.message_catalogue import compile_catalogues, read_catalogue, write_catalogue
from envcheck.core.language.gettext_catalogue import (
    COMPILED,
    FOLDER,
    compute_key,
    decode_catalogue,
    encode_catalogue,
    load_catalogue,
)

LONG, MANY = "{count} devices found on this machine", "{count} device found on this machine"


def test_every_translation_is_found() -> None:
    """Messages and plurals of the committed catalogue come back by their English texts."""
    catalogue = load_catalogue("zh")
    lost = []
    for message in read_catalogue(FOLDER / "zh_CN" / "LC_MESSAGES" / "envcheck.po"):
        if not message.id or message.fuzzy or not message.string:
            continue
        if message.pluralizable:
            found, wanted = catalogue.ngettext(*message.id, 2), message.string[0]
        else:
            found, wanted = catalogue.gettext(message.id), message.string
        lost += [message.id] if found != wanted else []

    assert lost == []


def test_an_added_catalogue_keeps_its_keys(tmp_path: Path) -> None:
    """The catalogue of another distribution is an ordinary one, and what nobody has stays as it is."""
    folder = tmp_path / "zh_CN" / "LC_MESSAGES"
    folder.mkdir(parents=True)
    added = Catalog(locale="zh_CN")
    added.add("a sentence that only this vendor has", "只有该厂商才有的句子")
    with (folder / "envcheck.mo").open("wb") as file:
        write_mo(file, added)
    catalogue = load_catalogue("zh", (tmp_path,))

    assert catalogue.gettext("a sentence that only this vendor has") == "只有该厂商才有的句子"
    assert catalogue.gettext("a sentence that nobody has translated") == "a sentence that nobody has translated"
    assert catalogue.ngettext("one thing that nobody knows", "{n} things that nobody knows", 2).startswith("{n}")


@pytest.mark.parametrize("texts", [(), ("设备",), ("设备", "", "第一行\n第二行", "𠀀 \N{GRINNING FACE}")])
def test_texts_come_back_by_their_keys(texts: tuple[str, ...]) -> None:
    """A compiled catalogue has each text, in however many planes of Unicode, under the hash of its message."""
    known = {compute_key(f"message {number}"): text for number, text in enumerate(texts)}

    assert decode_catalogue(encode_catalogue(known)) == known


def test_equal_keys_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two messages with one key would have one translation."""
    path = tmp_path / "x" / "locale" / "zh_CN" / "LC_MESSAGES" / "envcheck.po"
    path.parent.mkdir(parents=True)
    made = Catalog(locale="zh_CN")
    made.add(LONG, "甲")
    made.add(MANY, "乙")
    write_catalogue(path, made)
    monkeypatch.setattr("envcheck.cli.message_catalogue.compute_key", lambda message: b"same!")

    with pytest.raises(ValueError, match="have the key"):
        compile_catalogues(tmp_path)


def test_the_same_catalogue_gives_the_same_bytes(tmp_path: Path) -> None:
    """A release can be made again."""
    source = (FOLDER / "zh_CN" / "LC_MESSAGES" / "envcheck.po").read_bytes()
    made = []
    for name in ("a", "b"):
        path = tmp_path / name / "x" / "locale" / "zh_CN" / "LC_MESSAGES" / "envcheck.po"
        path.parent.mkdir(parents=True)
        path.write_bytes(source)
        compile_catalogues(tmp_path / name)
        made.append(path.with_name(COMPILED).read_bytes())

    assert made[0] == made[1]
