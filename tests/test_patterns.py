"""Regular expressions take linear time on hostile texts."""

from __future__ import annotations

import pytest

from tests import pattern_growth
from tests.pattern_growth import FoundPattern, find_divided_repeat, measure_growth

SAMPLES = 40  # one in so many patterns in the gate


@pytest.mark.parametrize("pattern", [r"(?m)^\s*x", r"\d+%", r"(?:a|a)*b", r"(a+)+b", r"\s*=\s*\s*$", r"\S*\d\S*"])
def test_slow_patterns_are_found(pattern: str) -> None:
    """Patterns that grow faster than their text are found."""
    assert measure_growth(FoundPattern("here", pattern, 0)) != ""


@pytest.mark.parametrize("pattern", [
    r"(?m)^[^\S\n]*x", r"(?<!\d)\d+%", r"[a-z]+(?:,[a-z]+)*", r".{0,40}x", r"(?<!\S)[^\s\d]*\d\S*",
])  # fmt: skip
def test_linear_patterns_are_accepted(pattern: str) -> None:
    """Patterns that are linear, also with a bounded repeat, are not reported."""
    assert measure_growth(FoundPattern("here", pattern, 0)) == ""


@pytest.mark.parametrize(
    ("pattern", "is_divided"),
    [
        (r"(?:[._]?[a-z]{1,20}){0,6}_x", True),
        (r"((?:\d{1,5},? ?){1,40})end", True),
        (r"(?:(?:a{1,9}|b\.) ?){3}$", True),
        (r"(?:[._][a-z]{1,20}){0,6}_x", False),
        (r"(?:\d{1,5}[, ]{0,2}){1,40}", False),  # nothing may fail after it
        (r"(?:\d{4}-?){1,9}end", False),
    ],
)
def test_divided_repeats_are_found(pattern: str, *, is_divided: bool) -> None:
    """A repeat that divides one text in many ways is found by its structure, whatever its bounds."""
    assert find_divided_repeat(FoundPattern("here", pattern, 0)) == is_divided


@pytest.mark.slow
def test_no_pattern_divides_a_text_in_many_ways() -> None:
    """No pattern of the code base has such a repeat: no text and no time is needed to know it."""
    found = pattern_growth.collect_patterns()

    assert [f"{each.where}: {each.pattern!r}" for each in found if find_divided_repeat(each)] == []


def list_slow(found: list[FoundPattern]) -> list[str]:
    return [f"{each.where}: {each.pattern!r}: {said}" for each in found if (said := measure_growth(each))]


@pytest.mark.slow
def test_a_sample_of_all_patterns_is_linear() -> None:
    """Every fortieth pattern of the code base is linear on the hostile texts that its own parts make."""
    found = pattern_growth.collect_patterns()

    assert len(found) > 1000
    assert list_slow(found[::SAMPLES]) == []


@pytest.mark.extended
def test_all_patterns_are_linear() -> None:
    """All 2,400 patterns of the code base are linear on hostile texts: a minute and a half of processor time."""
    assert list_slow(pattern_growth.collect_patterns()) == []
