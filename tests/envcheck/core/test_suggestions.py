"""What a misspelt word probably means."""

from __future__ import annotations

import pytest

from envcheck.core.suggestions import find_close, find_nearest, match_name, suggest

NAMES = ("npu", "nvidia", "iluvatar", "card-lost", "ERNIE-4.5-21B")


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("Nvidai", ["nvidia"]),
        ("ILU", ["iluvatar"]),
        ("CARD-LOTS", ["card-lost"]),
        ("ernie-4.5-21", ["ERNIE-4.5-21B"]),
        (" npu ", ["npu"]),
        ("zzzz", []),
        ("", []),
        ("n" * 100_000, []),
    ],
)
def test_nearest(word: str, expected: list[str]) -> None:
    """Matches by prefix or similar spelling, ignoring case; names keep their own case."""
    assert find_nearest(word, NAMES) == expected


def test_the_shortest_beginning_is_first() -> None:
    """Among names that start with the word, the shortest is listed first."""
    assert find_nearest("tiny", ["tiny-nvidia", "tiny-cpu", "atiny"], limit=3) == ["tiny-cpu", "tiny-nvidia"]


@pytest.mark.parametrize(
    ("word", "expected"),
    [("npu", "npu"), (" NPU ", "npu"), ("ernie-4.5-21b", "ERNIE-4.5-21B"), ("npux", None), ("", None)],
)
def test_match_name(word: str, expected: str | None) -> None:
    """Case and surrounding blanks are ignored; nothing else matches."""
    assert match_name(word, NAMES) == expected


def test_spelling_alone() -> None:
    """`find_close` takes no beginning for a name."""
    assert find_close("ilu", NAMES) == []


@pytest.mark.parametrize(
    ("word", "expected"),
    [("nvidai", "did you mean nvidia? see the list"), ("zzzz", "none is near see the list")],
)
def test_sentence(word: str, expected: str) -> None:
    """The sentence lists the names, or uses the caller's text; `more` is appended in both cases."""
    assert suggest(word, NAMES, "none is near", more="see the list") == expected
