"""The language that a person reads: English as written in the code, others by tables of sentences.

A table maps an English sentence, with {} where a value stands, to the other language's, with {} in the same order or
{0}, {1} in its own.  Values are translated in turn; what no table knows stays as it is, as a tool's own words must.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from functools import cache

from envcheck.core.errors import UsageError

LANGUAGES = ("en", "zh")
OPTION = "--lang"
_chosen = "en"
_named = False


def choose(argv: Sequence[str] | None = None, environment: Mapping[str, str] | None = None) -> str:
    """--lang of the command line, else ENVCHECK_LANG, else the locale; before anything is printed, help included."""
    global _chosen, _named
    words, around = list(sys.argv[1:] if argv is None else argv), os.environ if environment is None else environment
    given = _of_words(words[: words.index("--")] if "--" in words else words)
    asked, _named = given or around.get("ENVCHECK_LANG", ""), bool(given)
    locale = next((value for name in ("LC_ALL", "LC_MESSAGES", "LANG") if (value := around.get(name))), "")
    _chosen = checked(asked) if asked else "zh" if locale.lower().startswith("zh") else "en"
    return _chosen


def checked(asked: str) -> str:
    """A language that there is: zh, zh_CN.UTF-8, en-US ..."""
    short = asked.lower().replace("-", "_").partition("_")[0]
    if short not in LANGUAGES:
        raise UsageError(f"there is no language {asked[:20]!r}", f"choose one of {', '.join(LANGUAGES)}")
    return short


def chosen() -> str:
    return _chosen


def for_a_program() -> None:
    """From here on English, which programs read, unless the command line itself names a language."""
    global _chosen
    if not _named:
        _chosen = "en"


def say(text: str) -> str:
    """The sentence in the chosen language; English as it is."""
    return text if _chosen == "en" else _table(_chosen)(text)


def exact(text: str) -> str:
    """As `say`, where a table has just this; a title, which only looks like some sentence, stays."""
    said: str = text if _chosen == "en" else _table(_chosen).sentences.get(text, text)
    return said


def label(word: str) -> str:
    """A word that heads a line or a column, or names a state: in the tables with a blank behind it, by itself."""
    return say(f"{word} ").strip()


@cache
def _table(language: str):  # type: ignore[no-untyped-def]  # a Translator; its module is not imported for English
    from envcheck.core.language.translator import load

    return load(language)


def _of_words(words: Sequence[str]) -> str:
    for n, word in enumerate(words):
        if word == OPTION:
            return words[n + 1] if n + 1 < len(words) else ""
        if word.startswith(OPTION + "="):
            return word.partition("=")[2]
    return ""
