"""The quick look at lines: by the compiled automaton and without it, nothing is lost that a slow look would find."""

from __future__ import annotations

import builtins
import re
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from envcheck.explain import catalogue, explainer, prefilter
from envcheck.explain.log_findings import LogFindings
from envcheck.explain.prefilter import find_needles, mask_digits, may_match
from envcheck.explain.word_search import WordSearch
from tests.envcheck.explain.diagnose_helpers import SAID

SOUGHT = tuple(word.encode(code) for word in (*prefilter.WORDS, *prefilter.CHINESE) for code in ("utf-8", "gb18030"))
# Without the letters that are s, i and k in another case to patterns, but not to lower().
ALPHABET = st.characters(codec="utf-8", exclude_characters="\u017f\u0131\u0130\u212a")
PATTERNS = tuple(pattern for entry in catalogue.load_line_entries() for pattern in entry.match)


def cut_word(word: bytes) -> st.SearchStrategy[bytes]:
    """The word, or less of it, in either case."""
    return st.integers(0, len(word)).flatmap(lambda n: st.sampled_from((word[:n], word[n:], word, word.upper())))


PIECES = st.one_of(st.sampled_from(SOUGHT).flatmap(cut_word), st.sampled_from(SOUGHT), st.binary(max_size=4))
KEYS = st.lists(st.lists(PIECES, max_size=6).map(lambda parts: b"".join(parts).replace(b"\n", b" ")), max_size=12)


@pytest.fixture(params=("compiled", "plain"), scope="module")
def way(request: pytest.FixtureRequest) -> Any:
    """With the library and without it."""
    real = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "ahocorasick_rs":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        if request.param == "plain":
            patch.setattr(builtins, "__import__", without)
        prefilter._load_trigger_search.cache_clear()
        explainer.load_index.cache_clear()
        yield (prefilter._load_trigger_search()._automaton is None) == (request.param == "plain") or pytest.fail(
            "not the way asked for"
        )
    prefilter._load_trigger_search.cache_clear()
    explainer.load_index.cache_clear()


@settings(max_examples=100, deadline=None)
@given(keys=KEYS)
def test_the_lines_with_a_word(way: object, keys: list[bytes]) -> None:
    """Exactly the lines with one of the words are found, complete and in order."""
    slow = [key for key in keys if any(word in key.lower() for word in SOUGHT)]

    assert prefilter.select_lines(keys) == slow


@settings(max_examples=100, deadline=None)
@given(words=st.lists(st.binary(min_size=1, max_size=4), min_size=1, max_size=20), text=st.binary(max_size=60))
def test_which_words_stand_in_a_text(way: object, words: list[bytes], text: bytes) -> None:
    """Each word in the text is found, even inside another, or if it is listed twice."""
    text += words[0] + words[-1]

    assert WordSearch(words).find_words(text) == [at for at, word in enumerate(words) if word in text]


@settings(max_examples=100, deadline=None)
@given(keys=KEYS)
def test_which_words_stand_in_each_line(way: object, keys: list[bytes]) -> None:
    """One search for all lines gives the same result as one search per line."""
    words = WordSearch(SOUGHT)
    told = [(line, set(found)) for line, found in words.find_words_by_line(keys)]

    assert told == [(key, set(here)) for key in keys if (here := words.find_words(key.lower()))]


@settings(max_examples=60, deadline=None)
@given(lines=st.lists(st.one_of(st.sampled_from(SAID), st.text(max_size=30)), max_size=40))
def test_nothing_is_dropped(way: object, lines: list[str]) -> None:
    """What is claimed of a log when each line is compared with the catalogue is claimed, too, when few are."""
    few, every = (explainer._scan_lines("log", lines, every=every) for every in (False, True))

    assert summarize_hits(few) == summarize_hits(every)


def summarize_hits(scan: LogFindings) -> dict[str, tuple[int, bool, list[int]]]:
    return {name: (hit.count, hit.mild, [one.line for one in hit.first_lines]) for name, hit in scan.hits.items()}


def test_each_pattern_has_needles() -> None:
    """No pattern of the catalogue is tried on lines that have none of its words."""
    assert [pattern.pattern for pattern in PATTERNS if not find_needles(pattern)] == []


@pytest.mark.parametrize("pattern", ("a{0,3}b?c", "(?:ab|)c", "(?:ab|\\w)", "[ab]", "(?!ab)\\w", "(?=ab)\\w", "a|b?"))
def test_what_may_be_missing_is_no_needle(pattern: str) -> None:
    """What a pattern can do without, or with other letters, is not asked for."""
    assert {word for some in find_needles(re.compile(pattern)) for word in some} <= {"c"}


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_what_a_pattern_finds_has_its_needles(data: st.DataObject) -> None:
    """A text in which a pattern of the catalogue is found is never held back from it, whatever its case."""
    pattern = data.draw(st.sampled_from(PATTERNS))
    text = data.draw(st.from_regex(pattern, alphabet=ALPHABET))

    assert may_match(pattern, mask_digits(text.lower()))


def test_recorded_lines_have_their_needles() -> None:
    """Each pattern that is found in a recorded line may be."""
    found = [(pattern, line) for line in SAID for pattern in PATTERNS[::7] if pattern.search(line)]

    assert len(found) > 50
    assert [line for pattern, line in found if not may_match(pattern, mask_digits(line.lower()))] == []


@settings(max_examples=40, deadline=None)
@given(lines=st.lists(st.sampled_from(SAID), min_size=1, max_size=40))
def test_no_entry_loses_a_line_in_a_flood(way: object, lines: list[str]) -> None:
    """Lines that are asked together whether any entry may know them: those that one knows are among the answer."""
    index = explainer.load_index()
    known = [line for line in lines if any(index.match_line(line))]
    asked = [mask_digits(line).encode() for line in lines]

    assert {mask_digits(line).encode() for line in known} <= set(index.find_possible_lines(asked))
