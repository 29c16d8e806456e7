"""Assigns the words of a cell with masked or blank values to its columns: in order, each to the one whose form it has.

| NPU   Name                | Power(W)    Temp(C)           Hugepages-Usage(page)|
|       910B3               | ***                           0    / 0             |
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence

Column = tuple[str, str]  # key and pattern of the values; an empty key is ignored

ANY_TEXT = r".*?"
NIL = r"NA|N/A|-{1,2}"
PAIR = rf"(?:\d{{1,12}}|{NIL})\s*/\s*(?:\d{{1,12}}|{NIL})"
_FAILURE = re.compile(r"Unknown Error", re.IGNORECASE)
_HALF_WORD = rf"(?:N/A|{_FAILURE.pattern}|[^\s/]+)"
_SECOND = rf"(?:N/A(?!\s*/)|(?!N/A)(?!{_HALF_WORD}\s*/){_HALF_WORD})"  # not the first half of a further pair
_WORD = re.compile(rf"(?:{_HALF_WORD}\s*)?/\s*{_SECOND}?|{_FAILURE.pattern}|\S+", re.IGNORECASE)
_CHAIN = re.compile(rf"(?<!\S)/\s*{_HALF_WORD}\s*/(?!\S)", re.IGNORECASE)
_SIGN = r"[*xX#?\u2022\u2588\u2592]"
_MASK = re.compile(
    rf"[\s._:/-]*{_SIGN}(?:{_SIGN}|[\s._:/\u2026-])*|ERR!?|Unknown Error"
    r"|[<(\[]?(?:masked|redacted|hidden|removed|anonymi[sz]ed)[>)\]]?",
    re.IGNORECASE,
)
_PRINTED = re.compile(r"[A-Za-z0-9]")
_MODEL = "xxx"  # the vendor's documents print it for the name of any model
_WORDS_LIMIT = 8  # no cell has more values
# How well a word suits a column.  310 is a model's name as well as a number.
_VALUE, _NO_VALUE, _HALF, _TEXT, _MASKED, _DIGITS, _ODD, _WRONG = 8.0, 6.0, 6.0, 5.0, 4.0, 4.0, 0.5, -5.0
_DISTANCE = 10  # characters between a word and its heading that count; in an aligned table there are none
_EQUAL = 0.5  # choices whose suitability differs by less are equal


def is_mask(text: str) -> bool:
    """Return whether the text stands for a value that a person hid or the tool could not print."""
    return bool(_MASK.fullmatch(text.strip()))


def is_name(text: str | None) -> bool:
    """Return whether the text of a name's column is a name: no word of it is a mask, or has no sign of ASCII."""
    return bool(text) and (text == _MODEL or not (is_mask(text or "") or any(map(_is_hidden, (text or "").split()))))


def _is_hidden(word: str) -> bool:
    """Return whether a word is not one that the tool prints; a single sign may be one."""
    return len(word) > 1 and (is_mask(word) or not (word.isascii() or _PRINTED.search(word)))


def read_value(text: str, shape: str) -> str | None:
    """Return the text if it has the form of its column, of a pair also a single half; None if it cannot be read."""
    if re.fullmatch(NIL, text):
        return text
    if shape == ANY_TEXT:
        return text if is_name(text) else None
    if shape == PAIR and "/" in text and not re.fullmatch(shape, text):
        halves = [half if re.fullmatch(r"\d{1,12}", half) else "-" for half in _split_pair(text)]
        return " / ".join(halves) if halves != ["-", "-"] else None
    return text if re.fullmatch(shape, text) and not is_mask(text) else None


def align_cell(cell: str, columns: Sequence[Column], places: Sequence[int] = ()) -> list[str | None]:
    """Return the text of each column, None where the cell has none or several choices are equally good.

    `places` are the offsets of the columns' headings in their cell, if the cell has the width of theirs.
    """
    if len(columns) == 1:
        return [cell.strip() or None]
    if places and (slices := _slice_cell(cell, places)):
        return slices
    if _CHAIN.search(cell):  # the number in the middle is of either pair
        return [None] * len(columns)
    words = [(found[0].rstrip(), found.start()) for found in _WORD.finditer(cell)]
    nothing: list[str | None] = [None] * len(columns)
    if not words or len(words) > _WORDS_LIMIT:
        return nothing
    choices = sorted(_list_choices(cell, words, columns, places), key=lambda choice: -choice[0])
    equal = [texts for score, texts in choices if score > choices[0][0] - _EQUAL]
    return [options[0] if len(set(options)) == 1 else None for options in zip(*equal, strict=True)] or nothing


def _slice_cell(cell: str, places: Sequence[int]) -> list[str | None]:
    """Return the texts below the headings if each begins exactly there, or after a blank first half; else nothing."""
    if cell[: places[0]].strip() or any(cell[place - 1 : place].strip() for place in places[1:]):
        return []
    if any(found.start() < place < found.end() for found in _FAILURE.finditer(cell) for place in places):
        return []
    ends = [*places[1:], len(cell)]
    slices = [cell[place:end] for place, end in zip(places, ends, strict=True)]
    exact = all(not text.strip() or not text[0].isspace() or text.lstrip()[0] == "/" for text in slices)
    return [text.strip() or None for text in slices] if exact else []


def _list_choices(
    cell: str, words: list[tuple[str, int]], columns: Sequence[Column], places: Sequence[int]
) -> Iterator[tuple[float, list[str | None]]]:
    """Yield the ways to assign all words in order, with their suitability; a text at the end can have several words."""
    fewest = 1 if columns and columns[-1][1] == ANY_TEXT else len(words)
    for count in range(fewest, min(len(words), len(columns)) + 1):
        taken = (
            words
            if count == len(words)
            else [*words[: count - 1], (cell[words[count - 1][1] :].strip(), words[count - 1][1])]
        )
        for chosen in itertools.combinations(range(len(columns)), count):
            if count < len(words) and chosen[-1] != len(columns) - 1:
                continue
            texts: list[str | None] = [None] * len(columns)
            score = 0.0
            for at, (text, place) in zip(chosen, taken, strict=True):
                texts[at] = text
                score += _rate_word(text, columns[at][1])
                score -= min(_DISTANCE, abs(place - places[at])) if places else 0
            yield score, texts


def _rate_word(text: str, shape: str) -> float:
    """Return how well a word suits a column."""
    if re.fullmatch(NIL, text):
        return _NO_VALUE
    if "/" in text and not is_mask(text) and shape not in (PAIR, ANY_TEXT):
        return _WRONG
    if is_mask(text) or not (text.isascii() or _PRINTED.search(text)):
        return _MASKED + ("/" in text and shape == PAIR)
    if shape == ANY_TEXT:
        return _TEXT if not text.isdigit() else _VALUE if len(text) > 2 else _DIGITS
    if re.fullmatch(shape, text):
        return _VALUE
    return _HALF if read_value(text, shape) else _ODD


def _split_pair(text: str) -> list[str]:
    used, _, total = text.replace("N/A", "NA").partition("/")
    return [used.strip(), total.strip()]
