"""Lines that may begin an output are found by words: each pattern's words are in all of its matches."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import pytest

from envcheck.cli.commands.parse import PARSERS
from probes.paste.marked_lines import MarkIndex, find_marked_lines, make_marks
from probes.paste.output_forms import FirstLine, OutputForms
from probes.paste.text_parts import PartSplitter

try:
    from re import _parser as regex_parser  # type: ignore[attr-defined]  # the parse tree has no public interface
except ImportError:  # before Python 3.11
    import sre_parse as regex_parser

GAP = "\0"  # any characters
FORMS = {tool: importlib.import_module(module).FORMS for tool, module in PARSERS.items()}
PATTERNS = {
    f"{tool} {first.form} {first.pattern[:30]}": (first.pattern, first.words, first.begins, first.also)
    for tool, forms in FORMS.items()
    for first in (*forms.own, *forms.shared)
} | {f"{tool} programs": (forms.programs, forms.program_words, (), "") for tool, forms in FORMS.items()}


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


def has_mark(text: str, words: tuple[str, ...], begins: tuple[str, ...], also: str = "") -> bool:
    has_both = also.replace("0", GAP) in text and any(word in text for word in words)
    return has_both or text.lstrip(f'{GAP}|"#').startswith(begins)


@pytest.mark.parametrize(("pattern", "words", "begins", "also"), PATTERNS.values(), ids=PATTERNS)
def test_marks_are_in_all_matches(pattern: str, words: tuple[str, ...], begins: tuple[str, ...], also: str) -> None:
    """Whatever a pattern matches has one of its words, with the other one, or begins, and no pattern is without."""
    without = [text for text in list_texts(regex_parser.parse(pattern)) if not has_mark(text, words, begins, also)]

    assert words or begins
    assert without == []


@pytest.mark.parametrize(
    ("words", "begins", "also"),
    [(("NVIDIA-SMI",), (), ""), (("smi",), (), ""), ((), ("NVIDIA-SMI",), ""), (("smi", "SMI"), (), ": ")],
)
def test_wrong_marks_are_noticed(words: tuple[str, ...], begins: tuple[str, ...], also: str) -> None:
    """A mark that only some matches have fails the test above."""
    texts = list_texts(regex_parser.parse(r"\s*NVIDIA-SMI (?:has failed|couldn)|nvidia-smi: [A-Za-z]"))

    assert not all(has_mark(text, words, begins, also) for text in texts)


def test_marked_lines_are_found_like_line_by_line() -> None:
    """The indices are those of the lines with a word, a begin or an end."""
    lines = ["a b", "", "xx", "word word", "--- x", " x ---", "last ==", "end word", " \xa0| word1", "yword"]

    assert find_marked_lines(lines, make_marks(["word"], ["---"], ["=="])) == [3, 4, 6, 7, 8, 9]
    assert find_marked_lines(lines, make_marks(["x"], [])) == [at for at, line in enumerate(lines) if "x" in line]
    assert find_marked_lines(lines, make_marks([], ["word"])) == [3, 8]
    assert find_marked_lines([""], make_marks(["word"], ["---"])) == []
    assert find_marked_lines(lines, make_marks([], [], pairs=[("word", "end")])) == [7]


def test_lines_that_differ_by_digits_are_searched_once() -> None:
    """A digit in a mark matches any digit: the patterns decide."""
    lines = ["GPU 7: a", "GPU x: a", "n GPU 0: b"]

    assert find_marked_lines(lines, make_marks(["GPU 0: "], [])) == [0, 2]
    assert find_marked_lines(lines, make_marks([], ["GPU 0: "])) == [0]


def test_a_short_begin_is_refused() -> None:
    with pytest.raises(ValueError, match="fewer than 3"):
        make_marks([], ["ab"])


def test_the_groups_of_a_line_are_found_in_order() -> None:
    """A line has the groups with one of its words or begins, and those without any mark; digits are alike."""
    index = MarkIndex([(("smi",), ()), ((), ("GPU 0:",)), ((), ()), (("log",), ("NPU",))])

    assert index.find_marked(b"| nvidia-smi log |") == [0, 2, 3]
    assert index.find_marked(b"  GPU 0: A000") == [1, 2]
    assert index.find_marked(b"a GPU 0: A000") == [2]


def test_a_line_that_differs_by_digits_begins_what_its_own_digits_say() -> None:
    """What a pattern without digits says of a line counts for its like; one with digits is asked for each line."""
    starts = (FirstLine("list", r"GPU 0: \w{2}\Z", ("GPU",)), FirstLine("row", r"GPU \d: \w{2,3}\Z", ("GPU",)))
    splitter = PartSplitter({"smi": OutputForms("smi", starts, program_words=("smi",))})
    rows = ["GPU 1: a1", "GPU 0: a1", "GPU 2: a12", "GPU 0: a12", "GPU 0: a1234"]

    forms = [splitter.split_lines([row])[-1].form for row in rows]

    assert forms == ["row", "list", "row", "row", ""]
