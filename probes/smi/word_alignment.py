"""Assigns the words of a damaged cell to its columns: in order, each to the column whose form it has.

Fan  Temp   Perf          Pwr:Usage/Cap      N/A can be below each column, a mask below any
N/A         P0            **** /  350W       P0 and 350W have the forms of their columns: **** is the power
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from probes.smi import cell_words

WORDS_LIMIT = 24  # no cell has more; the work grows with their square
FAILURE_WORDS = (  # in place of a value
    r"\[?(?:Unknown Error|GPU is lost|GPU requires reset|Insufficient Permissions|No Data"
    r"|Not (?:Supported|Found|Active|Available))\]?(?![^\s/])"
)
_WORD = re.compile(rf"{FAILURE_WORDS}|-?\d+(?:\.\d+)? (?:C|W|%|MiB|MB|MHz)(?![^\s/])|\[?N/A\]?|/|[^\s/]+")
GLUED_LIMIT = 40  # characters of two values without a blank between them
_WHOLE_END = re.compile(r".*[A-Za-z%]|P(?:1[0-5]|\d)|N/A|.*\.\d")  # a bare number may go on
_KNOWN_TEXT = re.compile(r"Default|Prohibited|E\.|On|Off")  # of columns whose values are words
_PLAIN_WORD = re.compile(rf"{FAILURE_WORDS}|\S+")
# How well a word suits a column.  Words of a text are worth less than values, yet more than words of no form.
_VALUE, _NO_VALUE, _TEXT, _MASK, _ODD, _NEXT_WORD, _LEFT_OUT = 8.0, 5.0, 4.0, 3.0, 1.0, 1.5, -2.0
_DISTANCE = 0.004  # for each character between a word and its heading: decides between equal choices


@dataclass(frozen=True)
class Column:
    """A column: the form of its values, its place in the heading; `has_words`: a text of any words, as a name."""

    name: str
    form: re.Pattern[str]
    place: float
    has_words: bool = False


def align_words(cell: str, columns: Sequence[Column]) -> dict[str, str]:
    """Return the texts of the columns that have one, by name."""
    pattern = _WORD if any(column.name == "/" for column in columns) else _PLAIN_WORD
    words = [
        (word, (found.start() + found.end()) / 2)
        for found in pattern.finditer(cell)
        for word in _separate_glued(found[0], columns)
    ]
    if len(words) > WORDS_LIMIT:
        return {}
    nothing: tuple[tuple[str, int, int], ...] = ()
    # best[c]: the best choice for the words from `at` on and the columns from c on
    best = [[(_LEFT_OUT * left, nothing)] * (len(columns) + 1) for left in range(len(words), -1, -1)]
    for at in range(len(words) - 1, -1, -1):
        for c in range(len(columns) - 1, -1, -1):
            column = columns[c]
            score, chosen = best[at + 1][c]
            choices = [(score + _LEFT_OUT, chosen), best[at][c + 1]]
            for end in range(at + 1, (len(words) if column.has_words else at + 1) + 1):
                if (score := _rate_words(words[at:end], column)) > 0:
                    after, rest = best[end][c + 1]
                    choices.append((score + after, ((column.name, at, end), *rest)))
            best[at][c] = max(choices, key=lambda choice: choice[0])
    return {name: " ".join(word for word, _ in words[at:end]) for name, at, end in best[0][0][1]}


def list_words(text: str) -> list[str]:
    """Return the words of a text; a failure of several words is one."""
    return _PLAIN_WORD.findall(text)


def _separate_glued(word: str, columns: Sequence[Column]) -> tuple[str, ...]:
    """Return the two values that a wrap glued, 40CP0 or 0%Default, if the word has no form and only one cut fits."""
    forms = [_KNOWN_TEXT if column.has_words else column.form for column in columns if column.name != "/"]
    if len(word) < 3 or len(word) > GLUED_LIMIT or any(form.fullmatch(word) for form in forms):
        return (word,)
    cuts = [
        at
        for at in range(1, len(word))
        if _WHOLE_END.fullmatch(word, 0, at)
        and not word[at:].isdigit()  # the name P800 is not P8 and 00
        and any(
            form.fullmatch(word[:at]) and any(other.fullmatch(word[at:]) for other in forms[place + 1 :])
            for place, form in enumerate(forms)
        )
    ]
    return (word[: cuts[0]], word[cuts[0] :]) if len(cuts) == 1 else (word,)


def _rate_words(words: Sequence[tuple[str, float]], column: Column) -> float:
    first, place = words[0]
    score = _rate_word(first, column)
    if score <= 0:
        return 0.0
    return score + _NEXT_WORD * (len(words) - 1) - _DISTANCE * min(50.0, abs(place - column.place))


def _rate_word(word: str, column: Column) -> float:
    if column.name == "/" or word == "/":
        return _VALUE if column.name == word else 0.0
    if not column.has_words and column.form.fullmatch(word):
        return _VALUE
    if cell_words.is_absent(word) or cell_words.is_failure(word):
        return _NO_VALUE
    if cell_words.is_hidden(word):
        return _MASK
    return _TEXT if column.has_words else _ODD
