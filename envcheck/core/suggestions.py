"""Names as people type them: case does not matter, and all "did you mean ...?" hints are created here."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from envcheck.core.messages import NOTHING, Message, _, join

LONGEST = 80  # characters of the word that are compared: an argument can have 100,000


def match_name(word: str, known: Iterable[str]) -> str | None:
    """Return the known name that `word` spells, ignoring case and outer blanks; None if there is none."""
    names = list(known)
    if word in names:
        return word
    spelling = {name.lower(): name for name in names}
    return spelling.get(word.strip().lower())


@lru_cache(64)  # one list of names is compared with many words
def _fold_names(names: frozenset[str]) -> dict[str, str]:
    return {name.lower(): name for name in sorted(names, reverse=True)}


def find_close(word: str, known: Iterable[str], limit: int = 1, cutoff: float = 0.6) -> list[str]:
    """Return up to `limit` known names with a spelling similar to `word`, ignoring case, best first."""
    import difflib  # imported only for a mistake

    spelling = _fold_names(frozenset(known))
    found = difflib.get_close_matches(word[:LONGEST].strip().lower(), spelling, limit, cutoff)
    return [spelling[name] for name in found]


def find_nearest(word: str, known: Iterable[str], limit: int = 1, cutoff: float = 0.6) -> list[str]:
    """Return up to `limit` known names that start with `word`, shortest first; otherwise those with a similar
    spelling."""
    names, begins = list(known), word.strip().lower()
    longer = sorted((n for n in names if n.lower().startswith(begins)), key=lambda n: (len(n), n))
    return longer[:limit] if len(begins.lstrip("-")) > 1 and longer else find_close(word, names, limit, cutoff)


def suggest(
    word: str,
    known: Iterable[str],
    otherwise: Message = NOTHING,
    *,
    more: Message = NOTHING,
    limit: int = 1,
    cutoff: float = 0.6,
) -> Message:
    """Return "did you mean A, B?" for the names nearest to `word`, otherwise `otherwise`; `more` is appended to
    either."""
    near = find_nearest(word, known, limit, cutoff)
    first = _("did you mean {names}?", names=join(", ", near)) if near else otherwise
    return _("{first} {more}", first=first, more=more) if first and more else first or more
