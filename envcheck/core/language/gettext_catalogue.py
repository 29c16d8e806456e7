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
COMPILED = f"{DOMAIN}.texts.xz"
ENCODING = "utf-16-le"  # a Chinese text compresses better than in UTF-8
_KEY_SIZE = 5  # bytes
_COUNT_SIZE = 4  # bytes, at the beginning of the file


def compute_key(message: str) -> bytes:
    """Return the hash that stands for a message in a compiled catalogue.

    The English texts are in the code already; a third of the wheel's largest file would be their copies.
    """
    return hashlib.blake2b(message.encode("utf-8", "surrogatepass"), digest_size=_KEY_SIZE).digest()


def encode_catalogue(texts: Mapping[bytes, str]) -> bytes:
    """Return the content of a compiled catalogue, to be compressed, from the translations by key: the number of texts,
    the first bytes of all keys, their second bytes and so on, and the texts, each but the last followed by NUL."""
    keys = sorted(texts)
    columns = b"".join(bytes(key[at] for key in keys) for at in range(_KEY_SIZE))
    count = len(keys).to_bytes(_COUNT_SIZE, "little")
    return count + columns + "\0".join(texts[key] for key in keys).encode(ENCODING)


def decode_catalogue(data: bytes) -> dict[bytes, str]:
    """Return the translations by key."""
    count = int.from_bytes(data[:_COUNT_SIZE], "little")
    end = _COUNT_SIZE + _KEY_SIZE * count
    keys = (data[at:end:count] for at in range(_COUNT_SIZE, _COUNT_SIZE + count))
    return dict(zip(keys, data[end:].decode(ENCODING).split("\0"), strict=True)) if count else {}


class CompiledCatalogue(gettext.NullTranslations):
    """A catalogue by keys, of a language without plural forms; those behind it are gettext's."""

    def __init__(self, texts: Mapping[bytes, str]) -> None:
        super().__init__()
        self.texts = texts

    def gettext(self, message: str) -> str:
        """Return the translation, else the message."""
        found = self.texts.get(compute_key(message))
        return super().gettext(message) if found is None else found

    def ngettext(self, msgid1: str, msgid2: str, n: int) -> str:
        """Return the translation for n things, else the message of that number."""
        found = self.texts.get(compute_key(msgid1))
        return super().ngettext(msgid1, msgid2, n) if found is None else found


@cache
def load_catalogue(language: str, added: tuple[Path, ...] = ()) -> gettext.NullTranslations:
    """Return envcheck's catalogue for the language, with those in the folders `added`
    (<locale>/LC_MESSAGES/envcheck.mo, or compiled by envcheck's own tool).

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

        return CompiledCatalogue(
            decode_catalogue(lzma.decompress((folder / locale / "LC_MESSAGES" / COMPILED).read_bytes()))
        )
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
