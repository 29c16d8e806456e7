"""Lines that may begin an output are found by words: each pattern's words are in all of its matches."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import pytest

from envcheck.cli.commands.parse import PARSERS
from probes.paste.marked_lines import find_marked_lines

try:
    from re import _parser as regex_parser  # type: ignore[attr-defined]  # the parse tree has no public interface
except ImportError:  # before Python 3.11
    import sre_parse as regex_parser

GAP = "\0"  # any characters
FORMS = {tool: importlib.import_module(module).FORMS for tool, module in PARSERS.items()}
PATTERNS = {
    f"{tool} {first.form} {first.pattern[:30]}": (first.pattern, first.words)
    for tool, forms in FORMS.items()
    for first in (*forms.own, *forms.shared)
} | {f"{tool} programs": (forms.programs, forms.program_words) for tool, forms in FORMS.items()}


def list_texts(items: Sequence[tuple[Any, Any]]) -> Iterator[str]:
    """Yield the texts that a parsed pattern matches, with GAP where any characters may be."""
    parts = [list(list_item_texts(str(operation), argument)) for operation, argument in items]
    return ("".join(chosen) for chosen in product(*parts))


def list_item_texts(operation: str, argument: Any) -> Iterator[str]:
    if operation == "LITERAL":
        yield chr(argument)
    elif operation == "IN" and [str(kind) for kind, _ in argument] == ["RANGE"] and len(range(*argument[0][1])) < 8:
        first, last = argument[0][1]
        yield from map(chr, range(first, last + 1))
    elif operation == "BRANCH":
        for branch in argument[1]:
            yield from list_texts(branch)
    elif operation == "SUBPATTERN":
        yield from list_texts(argument[-1])
    elif operation in ("MAX_REPEAT", "MIN_REPEAT"):
        least, most, body = argument
        if least == 0:
            yield GAP
        if most == 1:
            yield from list_texts(body)
        elif least > 0:
            yield from (f"{text}{GAP}" for text in list_texts(body))
    elif operation in ("AT", "ASSERT", "ASSERT_NOT"):
        yield ""
    else:
        yield GAP


@pytest.mark.parametrize(("pattern", "words"), PATTERNS.values(), ids=PATTERNS)
def test_words_are_in_all_matches(pattern: str, words: tuple[str, ...]) -> None:
    """Whatever a pattern matches has one of its words, and no pattern is without words."""
    without = [text for text in list_texts(regex_parser.parse(pattern)) if not any(word in text for word in words)]

    assert words
    assert without == []


@pytest.mark.parametrize("word", ["NVIDIA-SMI", "smi"])
def test_wrong_words_are_noticed(word: str) -> None:
    """A word that only some matches have fails the test above."""
    texts = list_texts(regex_parser.parse(r"\s*NVIDIA-SMI (?:has failed|couldn)|nvidia-smi: [A-Za-z]"))

    assert not all(word in text for text in texts)


def test_marked_lines_are_found_like_line_by_line() -> None:
    """The indices are those of the lines with a word; a line break in a word is the line's begin or end."""
    text = "a b\n\nxx\nword word\n--- x\n x ---\nlast ==\nend word"
    lines = text.split("\n")

    assert find_marked_lines(text, ["word", "\n---", "==\n"]) == [3, 4, 6, 7]
    assert find_marked_lines(text, ["x"]) == [at for at, line in enumerate(lines) if re.search("x", line)]
    assert find_marked_lines("", ["word", "\n---"]) == []
