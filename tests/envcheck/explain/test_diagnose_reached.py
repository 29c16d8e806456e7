"""Each pattern of the catalogue is reached: a line that it is of is looked at, and has a word of its entry."""

from __future__ import annotations

import re

import pytest

from envcheck.explain import codes, session
from envcheck.explain.prefilter import has_trigger
from tests.envcheck.explain.pattern_texts import texts
from tests.envcheck.explain.test_diagnose_catalogue import ENTRIES, LINES

# A number or a word that means it only where the line says more: that a process ended, that it was aborted.
IN_CONTEXT = {"exit.sigterm", "host.aborted", "host.killed"}
# What the readers take for something healthy in the short text that is made here, and never in the real one.
HEALTHY = {"cuda.assert": "Assertion t >= 0 failed"}


def made(name: str) -> list[tuple[re.Pattern[str], list[str]]]:
    """Of each pattern of the entry the texts that it is found in, as an exception tells them."""
    return [(pattern, texts(pattern, "RuntimeError: ")) for pattern in ENTRIES[name].match]


def unreached(name: str) -> list[str]:
    index, healthy = session.index(), HEALTHY.get(name, "\n")
    return [
        text
        for _, said in made(name)
        for text in said
        if healthy not in text
        and not (has_trigger(text.lower()) and ENTRIES[name] in [entry for entry, _ in index.of(text)])
    ]


@pytest.mark.parametrize("name", ENTRIES)
def test_patterns_are_reached(name: str) -> None:
    """Each way through a pattern of an entry leads to the entry; a list says which want more of the line."""
    assert bool(unreached(name)) == (name in IN_CONTEXT), unreached(name)


@pytest.mark.parametrize("name", ENTRIES)
def test_patterns_have_a_text(name: str) -> None:
    """Where no text could be made of a pattern, a right line of the entry is found by it."""
    for pattern, said in made(name):
        assert said or any(pattern.search(line) for line in LINES[name]["right"]), pattern.pattern


def test_codes_in_a_log() -> None:
    """Each code of CANN's tables, at the head of a line as CANN writes it, is told of."""
    every = [code for table in codes.tables().values() for code in table if re.fullmatch(r"E[A-Z]?\d{4,5}", code)]
    dumb = [
        code
        for code in every
        if not session.report([session._lines("log", [f"[ERROR] {code}: [PID: 3] call failed"])]).diagnoses
    ]

    assert (len(every) > 40, dumb) == (True, [])


@pytest.mark.parametrize(
    ("pattern", "expected"),
    (
        (r"\bA(?:b|c{2})?d\b", ["! Ad here", "! Abd here", "! Accd here"]),
        (r"^x[^\"x]{1,9}\"$", []),
        (r"n(?:ot|o) \d{3,5}.end", ["! not 111'end here", "! no 111'end here"]),
        (r"^Bus(?P<what>\w)", ["Busx here"]),
    ),
)
def test_texts_of_a_pattern(pattern: str, expected: list[str]) -> None:
    """Every alternative has a text, none is there that the pattern is not found in."""
    assert texts(re.compile(pattern), "! ") == expected
