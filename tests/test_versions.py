"""The order of the vendors' version strings."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envcheck import versions

# Each before the next: CANN and HDK release notes, PEP 440, drivers seen in public outputs.
ASCENDING = [
    ["7.0.0", "8.0.T63", "8.0.RC1", "8.0.RC2", "8.0.RC3", "8.0.0", "8.1.RC1", "8.2.RC1.alpha001", "8.2.RC1"],
    ["8.2.RC1", "8.5.0", "8.5.1", "9.0.0", "9.1.0"],
    ["22.0.4", "23.0.rc2", "23.0.rc2.3", "23.0.rc3", "23.0.2.1", "23.0.3", "24.1.rc1", "24.1.rc1.b030", "24.1.rc2"],
    ["24.1.rc2", "24.1.rc2.2", "24.1.rc3.7", "24.1.0", "24.1.0.1", "25.0.rc1.1", "25.2.0", "26.1.0", "26.1.0.b061"],
    ["3.0.0.dev20250926", "3.0.0b1", "3.0.0", "3.1.0a0", "3.1.0", "3.3.1"],
    ["2.7.1", "2.7.1.post2", "2.7.1.post10", "2.10.0"],
    ["470.103.01", "535.171", "550.90.07", "570.124.06", "590.48.01"],
]  # fmt: skip
NOT_VERSIONS = ["", "x.x.x", "N/A", "rc1", "1..2", "8.0.RC1; rm", "1.0 beta", "9" * 100]
versions_like = st.from_regex(r"[0-9]{1,3}(\.[0-9]{1,3}){0,3}(\.?(rc|b|post|a)[0-9]{1,3})?", fullmatch=True)


@pytest.mark.parametrize("ascending", ASCENDING, ids=lambda row: row[0])
def test_ascending(ascending: list[str]) -> None:
    """Each version of a row is older than the next."""
    for older, newer in pairwise(ascending):
        assert (older, newer, versions.compare(older, newer)) == (older, newer, -1)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("8.0", "8.0.0"),
        ("8.0.RC1", "8.0.rc1"),
        ("2.1.0+cpu", "2.1.0"),
        ("v4.3.0", "4.3.0"),
        ("570.124.06", "570.124.6"),
    ],
)
def test_equal(left: str, right: str) -> None:
    """Spellings of one version are equal."""
    assert versions.compare(left, right) == 0


@pytest.mark.parametrize("text", NOT_VERSIONS)
def test_no_version_cannot_be_told(text: str) -> None:
    """What is no version compares with nothing: None, not False."""
    assert versions.at_least(text, "1.0") is None
    assert versions.compare("1.0", text) is None


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        ("24.1.rc1", "24.1.rc1.b030", True),
        ("22.0.2", "22.0.4", False),
        ("2.7.1", "2.7.1.post2", True),
        ("2.1", "?", None),
    ],
)
def test_same_release(left: str, right: str, same: bool | None) -> None:
    """A build or a post-release is of the same release; another number is not."""
    assert versions.same_release(left, right) is same


@given(versions_like, versions_like, versions_like)
def test_order_is_total(a: str, b: str, c: str) -> None:
    """The order is antisymmetric and transitive, so that sorting means something."""
    low, middle, high = sorted((a, b, c), key=lambda text: versions.key(text) or ())

    assert versions.compare(a, b) == -(versions.compare(b, a) or 0)
    assert versions.at_least(middle, low) and versions.at_least(high, middle) and versions.at_least(high, low)


@given(st.text(max_size=200))
def test_any_text_is_answered(text: str) -> None:
    """Whatever a tool prints, the answer is an order or None."""
    assert versions.compare(text, "8.0.RC1") in (-1, 0, 1, None)
