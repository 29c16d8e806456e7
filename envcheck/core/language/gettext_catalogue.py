"""Translations from gettext catalogues, of envcheck and of added vendors."""

from __future__ import annotations

import gettext
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from envcheck.core.language.width import remove_extra_blanks
from envcheck.core.messages import Message

DOMAIN = "envcheck"
LOCALES = {"zh": "zh_CN"}
FOLDER = Path(__file__).parents[2] / "locale"


@cache
def load_catalogue(language: str, added: tuple[Path, ...] = ()) -> gettext.NullTranslations:
    """Return envcheck's catalogue for the language, with those in the folders `added`
    (<locale>/LC_MESSAGES/envcheck.mo).

    Without a compiled catalogue, as in a clone that is not installed, messages stay English.
    """
    first, *rest = (
        gettext.translation(DOMAIN, folder, [LOCALES[language]], fallback=True) for folder in (FOLDER, *added)
    )
    for catalogue in rest:
        first.add_fallback(catalogue)
    return first


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
