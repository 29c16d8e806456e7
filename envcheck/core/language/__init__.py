"""The language of messages for people: English as in the code, others from gettext catalogues.

`envcheck/locale/<language>/LC_MESSAGES/envcheck.po` has the translations; the build compiles them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from envcheck.core.errors import UsageError
from envcheck.core.messages import _, join

LANGUAGES = ("en", "zh")
OPTION, VARIABLE = "--lang", "ENVCHECK_LANG"
TRADITIONAL = {"tw", "hk", "mo", "hant"}
CATALOGUE_FOLDERS: list[Path] = []  # locale folders in the packages of added vendors
_chosen = "en"
_named = False


def choose_language(argv: Sequence[str] | None = None, environment: Mapping[str, str] | None = None) -> str:
    """Set and return the language: --lang, else ENVCHECK_LANG, else the locale. Called before anything is printed."""
    global _chosen, _named
    words, around = list(sys.argv[1:] if argv is None else argv), os.environ if environment is None else environment
    given = _find_language_option(words[: words.index("--")] if "--" in words else words)
    asked, _named = given or around.get(VARIABLE, ""), bool(given)
    locale = next((value for name in ("LC_ALL", "LC_MESSAGES", "LANG") if (value := around.get(name))), "")
    _chosen = validate_language(asked) if asked else _short(locale) if _short(locale) in LANGUAGES else "en"
    return _chosen


def validate_language(asked: str) -> str:
    """Return the code of a supported language for a name such as zh, zh_CN.UTF-8 or en-US; UsageError otherwise."""
    short = _short(asked)
    if short not in LANGUAGES:
        raise UsageError(
            _("unknown language {asked!r}", asked=asked[:20]),
            _("choose one of {languages}", languages=join(", ", LANGUAGES)),
        )
    return short


def _short(name: str) -> str:
    """Return the language code; English for Traditional Chinese, whose readers prefer it to Simplified Chinese."""
    code, *parts = name.lower().replace("-", "_").partition(".")[0].split("_")
    return "en" if code == "zh" and TRADITIONAL & {*parts} else code


def current_language() -> str:
    """Return the code of the selected language."""
    return _chosen


def use_program_language() -> None:
    """Switch to English for program output, unless the command line sets a language."""
    global _chosen
    if not _named:
        _chosen = "en"


def translate(text: str) -> str:
    """Return the message in the selected language; text without a translation, such as tool output, is returned
    unchanged."""
    if _chosen == "en":
        return text
    from envcheck.core.language.gettext_catalogue import render

    return render(text, _chosen, tuple(CATALOGUE_FOLDERS))


def _find_language_option(words: Sequence[str]) -> str:
    for n, word in enumerate(words):
        if word == OPTION:
            return words[n + 1] if n + 1 < len(words) else ""
        if word.startswith(OPTION + "="):
            return word.partition("=")[2]
    return ""
