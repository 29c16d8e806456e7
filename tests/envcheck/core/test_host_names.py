"""Lists of host names for programs and for people."""

from __future__ import annotations

from envcheck.core.host_names import NAMES_LIMIT, fold_hosts, name_hosts


def test_numbered_names_are_folded_however_many_there_are() -> None:
    """Ten thousand names with consecutive numbers are one range."""
    names = [f"node{number:05d}" for number in range(1, 10_001)]

    assert (fold_hosts(names), name_hosts(names)) == ("node[00001-10000]", "node[00001-10000]")


def test_people_get_the_first_of_many_names_that_do_not_fold() -> None:
    """The list for people says how many names are left out; that for programs has all of them."""
    names = [f"{chr(97 + number % 26)}{number}x{number * 7919 % 997}" for number in range(300)]

    assert len(name_hosts(names)) <= NAMES_LIMIT
    assert name_hosts(names).endswith(" and 292 more")
    assert all(name in name_hosts(names) for name in names[:8])
    assert len(fold_hosts(names)) > NAMES_LIMIT
