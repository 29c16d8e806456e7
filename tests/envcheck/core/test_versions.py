"""The order of the vendors' version strings."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version

from envcheck.core import versions

# Each before the next: CANN and HDK release notes, PEP 440, drivers seen in public outputs.
ASCENDING = [
    ["7.0.0", "8.0.T63", "8.0.RC1", "8.0.RC2", "8.0.RC3", "8.0.0", "8.1.RC1", "8.2.RC1.alpha001", "8.2.RC1"],
    ["8.2.RC1", "8.5.0", "8.5.1", "9.0.0", "9.1.0"],
    ["22.0.4", "23.0.rc2", "23.0.rc2.3", "23.0.rc3", "23.0.2.1", "23.0.3", "24.1.rc1", "24.1.rc1.b030", "24.1.rc2"],
    ["24.1.rc2", "24.1.rc2.2", "24.1.rc3.7", "24.1.0", "24.1.0.1", "25.0.rc1.1", "25.2.0", "26.1.0", "26.1.0.b061"],
    ["3.0.0.dev20250926", "3.0.0b1", "3.0.0", "3.1.0a0", "3.1.0", "3.3.1"],
    ["2.7.1", "2.7.1.post2", "2.7.1.post10", "2.10.0"],
    ["470.103.01", "535.171", "550.54.15", "550.90.07", "570.124.06", "590.48.01"],
    ["24.1.rc1", "24.1.rc2", "24.1.rc2.b030", "24.1.rc2.b031", "24.1.rc3", "24.1.0", "25.5.0", "25.5.2", "26.0.RC1"],
    ["8.0.RC2.alpha001", "8.0.RC2.alpha003", "8.0.RC2", "8.0.RC3", "8.0.0", "9.0.0-beta.1", "9.0.0-beta.2", "9.0.0"],
    ["4.3.0.rc.9.20250624", "4.3.0", "4.3.8"],
    ["7.0.1.2.219", "7.0.1.2.220", "7.0.1.10", "7.1.0.6.220"],
    ["1.2.3.4.5.6.7.8.9", "1.2.3.4.5.6.7.8.10"],
    ["12.3", "12.4", "12.6.85", "13.0"],
]  # fmt: skip
NOT_VERSIONS = [
    "",
    "2.1.0+",
    "2.1.0+cpu;rm",
    "٣.١",
    "x.x.x",
    "N/A",
    "rc1",
    "1..2",
    "8.0.RC1; rm",
    "1.0 beta",
    "9" * 100,
]
TAILS = ("", "", "a{}", "b{}", "rc{}", ".post{}", ".dev{}", "rc{}.dev1", "a{}.post2", ".post{}.dev3")
python_versions = st.builds(
    lambda numbers, tail, n: ".".join(map(str, numbers)) + tail.format(n),
    st.lists(st.integers(0, 99), min_size=1, max_size=5),
    st.sampled_from(TAILS),
    st.integers(0, 30),
)
versions_like = st.from_regex(r"[0-9]{1,3}(\.[0-9]{1,3}){0,3}(\.?(rc|b|post|a)[0-9]{1,3})?", fullmatch=True)


@pytest.mark.parametrize("ascending", ASCENDING, ids=lambda row: row[0])
def test_ascending(ascending: list[str]) -> None:
    """Each version of a row is older than the next."""
    for older, newer in pairwise(ascending):
        assert (older, newer, versions.compare_versions(older, newer)) == (older, newer, -1)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("8.0", "8.0.0"),
        ("8.0.RC1", "8.0.rc1"),
        ("2.1.0+cpu", "2.1.0"),
        ("v4.3.0", "4.3.0"),
        ("570.124.06", "570.124.6"),
        ("2.1.0+cpu", "2.1.0+cu118"),
        ("1.0rc", "1.0rc0"),
        ("24.1.rc3.0", "24.1.rc3"),
    ],
)
def test_equal(left: str, right: str) -> None:
    """Spellings of one version are equal."""
    assert versions.compare_versions(left, right) == 0


@pytest.mark.parametrize("text", NOT_VERSIONS)
def test_no_version_cannot_be_told(text: str) -> None:
    """Comparing text that is not a version gives None, not False."""
    assert versions.is_at_least(text, "1.0") is None
    assert versions.compare_versions("1.0", text) is None


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
    assert versions.is_same_release(left, right) is same


@given(versions_like, versions_like, versions_like)
def test_order_is_total(a: str, b: str, c: str) -> None:
    """The order is antisymmetric and transitive, so that sorting means something."""
    low, middle, high = sorted((a, b, c), key=lambda text: versions.sort_key(text) or ())

    assert versions.compare_versions(a, b) == -(versions.compare_versions(b, a) or 0)
    assert versions.is_at_least(middle, low) and versions.is_at_least(high, middle) and versions.is_at_least(high, low)


@given(st.text(max_size=200))
def test_any_text_is_answered(text: str) -> None:
    """Whatever a tool prints, the answer is an order or None."""
    assert versions.compare_versions(text, "8.0.RC1") in (-1, 0, 1, None)


@given(python_versions, python_versions)
def test_python_packages_sort_as_pip_sorts_them(a: str, b: str) -> None:
    """Of package versions the order is that of PEP 440."""
    expected = (Version(a) > Version(b)) - (Version(a) < Version(b))

    assert versions.compare_versions(a, b) == expected


@pytest.mark.parametrize(
    ("version", "release", "is_build"),
    [
        ("24.1.rc1.b030", "24.1.RC1", True),
        ("3.10.14", "3.10", True),
        ("8.0.0", "8.0.0", True),
        ("8.0.RC2.alpha003", "8.0.RC2", False),
        ("24.1.rc10", "24.1.rc1", False),
        ("3.1", "3.10", False),
        ("?", "3.10", None),
    ],
)
def test_build_of_a_release(version: str, release: str, is_build: bool | None) -> None:
    """A build belongs to its release; pre-releases and longer numbers with the same first digits do not."""
    assert versions.is_build_of(version, release) is is_build


@pytest.mark.parametrize(
    ("version", "pattern", "builds", "fits"),
    [
        ("25.5.2", "25.5.X", False, True),
        ("25.5.RC1", "25.5.x", False, True),
        ("25.50.1", "25.5.X", False, False),
        ("9.1", "9.1.X", False, True),
        ("2.7.1", "2.7.1.post2", False, False),
        ("2.7.1.post2", "2.7.1", False, False),
        ("24.1.rc1.b030", "24.1.RC1", True, True),
        ("24.1.rc1.b030", "24.1.RC1", False, False),
        ("1.26.4", ">=1.21,<2", False, True),
        ("2.0", ">=1.21,<2", False, False),
        ("8.2.RC1.b010", "<=8.2.RC1", True, True),
        ("8.2.RC1.b010", "<8.2.RC1", True, False),
        ("2.1.0+cpu", "2.1.0", False, True),
        ("3.1.0a0", "any", False, True),
        ("x", "any", False, None),
        ("1.0", ">=x", False, None),
        ("1.0", "~=1.0", False, None),
        ("1.0", ">=1,", False, None),
    ],
)
def test_ranges(version: str, pattern: str, builds: bool, fits: bool | None) -> None:
    """Version patterns of the tables match as documented; an invalid pattern gives None."""
    assert versions.fits_pattern(version, pattern, builds) is fits


@given(versions_like, versions_like)
def test_ranges_agree_with_the_order(version: str, bound: str) -> None:
    """A version fits exactly those ranges that its order allows, and the ranges around one bound leave nothing out."""
    order = versions.compare_versions(version, bound) or 0
    fits = {sign: versions.fits_pattern(version, f"{sign}{bound}") for sign in (">=", "<=", "==", "!=", ">", "<")}

    assert fits == {
        ">=": order >= 0,
        "<=": order <= 0,
        "==": order == 0,
        "!=": order != 0,
        ">": order > 0,
        "<": order < 0,
    }


@given(st.text(max_size=100), st.text(max_size=100), st.booleans())
def test_any_range_is_answered(version: str, pattern: str, builds: bool) -> None:
    """Whatever two texts are compared, the answer is yes, no or None."""
    assert versions.fits_pattern(version, pattern, builds) in (True, False, None)
