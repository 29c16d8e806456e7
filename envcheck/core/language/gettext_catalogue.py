"""Translations from gettext catalogues, of envcheck and of added vendors."""

from __future__ import annotations

import gettext
import hashlib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from envcheck.core.language.width import remove_extra_blanks
from envcheck.core.messages import Message

DOMAIN = "envcheck"
LOCALES = {"zh": "zh_CN"}
FOLDER = Path(__file__).parents[2] / "locale"
COMPILED = f"{DOMAIN}.mo.xz"  # a fifth of the .mo: the wheel's own compression looks back 32 KiB only
SHORT_KEY = 12  # characters: of these, a hash would not be shorter


def shorten_key(message: str) -> str:
    """Return the key of a message in envcheck's compiled catalogue: a long one is replaced by a hash of 40 bits.

    The English texts are in the code already; a third of the wheel's largest file would be their copies.
    """
    if len(message) <= SHORT_KEY:
        return message
    return "\x01" + hashlib.blake2b(message.encode("utf-8", "surrogatepass"), digest_size=5).hexdigest()


class ShortKeyCatalogue(gettext.GNUTranslations):
    """A catalogue with short keys; those behind it may have whole ones."""

    def gettext(self, message: str) -> str:
        """Return the translation, else the message."""
        key = shorten_key(message)
        found = super().gettext(key)
        return super().gettext(message) if found == key else found

    def ngettext(self, msgid1: str, msgid2: str, n: int) -> str:
        """Return the translation for n things, else the message of that number."""
        key = shorten_key(msgid1)
        found = super().ngettext(key, key, n)
        return super().ngettext(msgid1, msgid2, n) if found == key else found


@cache
def load_catalogue(language: str, added: tuple[Path, ...] = ()) -> gettext.NullTranslations:
    """Return envcheck's catalogue for the language, with those in the folders `added`
    (<locale>/LC_MESSAGES/envcheck.mo, or .mo.xz).

    Without a compiled catalogue, as in a clone that is not installed, messages stay English; so they do with a Python
    that was built without lzma.
    """
    first, *rest = (_read_catalogue(folder, LOCALES[language]) for folder in (FOLDER, *added))
    for catalogue in rest:
        first.add_fallback(catalogue)
    return first


def _read_catalogue(folder: Path, locale: str) -> gettext.NullTranslations:
    """Return the catalogue that envcheck's own tool has compiled, else that of gettext's, else an empty one."""
    try:
        import lzma

        with lzma.open(folder / locale / "LC_MESSAGES" / COMPILED) as file:
            return ShortKeyCatalogue(file)
    except (ImportError, OSError):
        return gettext.translation(DOMAIN, folder, [locale], fallback=True)


def render(text: str, language: str, added: tuple[Path, ...] = ()) -> str:
    """Return the text in the language: a message by its template, other text if it is a template itself, else
    unchanged."""
    catalogue = load_catalogue(language, added)
    rendered = _render(text, catalogue)
    return text if rendered == text else remove_extra_blanks(rendered)


def _render(text: str, catalogue: gettext.NullTranslations) -> str:
    if not isinstance(text, Message):
        bare = text.strip()
        found = catalogue.gettext(text) if text else text
        return found if found != text or bare == text or not bare else text.replace(bare, catalogue.gettext(bare), 1)
    if text.plural:
        template = catalogue.ngettext(text.template, text.plural, text.number)
    else:
        template = catalogue.gettext(text.template) if text.template else ""
    return template.format(**dict(_values(text.values, catalogue))) if text.values else template


def _values(values: Mapping[str, Any], catalogue: gettext.NullTranslations) -> Iterator[tuple[str, Any]]:
    """Yield the values; messages among them are translated in turn, other text is unchanged."""
    for name, value in values.items():
        yield name, _render(value, catalogue) if isinstance(value, Message) else value
