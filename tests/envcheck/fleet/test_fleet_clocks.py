"""Clock offsets: what the times of an exchange prove."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envcheck.fleet import clocks
from envcheck.fleet.clocks import ClockOffset
from envcheck.fleet.output import HostOutput
from envcheck.payload.remote_collector import MARK


@pytest.mark.parametrize(
    ("offsets", "odd", "words"),
    (
        (
            {"n1": (-0.1, 0.1), "n2": (-0.1, 0.1), "n3": (4.9, 5.1)},
            ("n3",),
            "clock offset from the majority: n3 5.0 s ahead",
        ),
        (
            {"n1": (-0.1, 0.1), "n2": (-0.1, 0.1), "n3": (-3601, -3599)},
            ("n3",),
            "clock offset from the majority: n3 60 min behind",
        ),
        ({"n1": (-0.1, 0.1), "n2": (86000, 86001)}, ("n2",), "clock offset from the majority: n2 24 h ahead"),
        ({"n1": (7.9, 8.1), "n2": (7.9, 8.1), "n3": (7.8, 8.2)}, (), ""),
        ({"n1": (-0.1, 0.1), "n2": (-0.1, 0.1), "n3": (-1.0, 30.0)}, (), ""),
        ({"n1": (0.4, 0.45), "n2": (-0.05, 0.0), "n3": (-0.4, 0.1)}, (), ""),
        ({}, (), ""),
    ),
    ids=("ahead", "behind", "of-two", "all-but-ours", "a-slow-answer-proves-nothing", "within", "none"),
)
def test_far_clocks(offsets: dict[str, tuple[float, float]], odd: tuple[str, ...], words: str) -> None:
    """A host is reported if its clock is provably more than half a second from the median."""
    found = clocks.find_outliers({host: ClockOffset(*pair) for host, pair in offsets.items()})

    assert [one.hosts for one in found] == ([odd] if odd else [])
    assert [one.finding.seen for one in found] == ([words] if words else [])


TRUE = st.lists(st.floats(-0.25, 0.25), min_size=2, max_size=9)
SLACK = st.tuples(st.floats(0, 100), st.floats(0, 100))


@given(TRUE, st.lists(SLACK, min_size=9, max_size=9))
def test_no_host_is_named_wrongly(true: list[float], slack: list[tuple[float, float]]) -> None:
    """Clocks within half a second of each other are never reported, however slow the answers."""
    pairs = zip(true, slack, strict=False)
    offsets = {f"n{n}": ClockOffset(at - before, at + after) for n, (at, (before, after)) in enumerate(pairs)}

    assert clocks.find_outliers(offsets) == []


@pytest.mark.parametrize("text", (b"", b"nan", b"inf", b"-1", b"1e400", b"x" * 5000))
def test_a_clock_that_is_none(text: bytes) -> None:
    """An invalid time proves nothing, and stops nothing."""
    said = HostOutput("n1", began_at=1.0)
    said.add_output_line(f"{MARK} clock ".encode() + text)

    assert said.offset is None
