"""Logs of nothing but errors that no entry knows, each in other words: little is done for each, no cause is lost."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from envcheck.explain import session
from envcheck.explain.index import Index
from envcheck.explain.model import Entry, Report
from envcheck.explain.scan import Scan

pytestmark = pytest.mark.slow

LINES = 40_000  # about 2.5 MiB
FAILED = "[ERROR] request {number} {} failed: {}"
WORDS = tuple(map("".join, itertools.product("bdfgklmprst", "aeiou", "bdfgklmprst", "aeiou")))


def flood(line: str) -> Iterator[str]:
    """Lines that differ in two words, of which no two are alike."""
    for number, pair in enumerate(itertools.product(WORDS, repeat=2)):
        if number == LINES:
            return
        yield line.format(*pair, number=number)


def read(folder: Path, lines: list[str]) -> Report:
    (folder / "a.log").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return session.explain_files([folder / "a.log"])


@pytest.mark.parametrize(
    ("line", "among", "name"),
    [
        (f"{FAILED} not found", "OSError: [Errno 28] No space left on device", "host.disk_full"),
        (FAILED, "[ERROR] HCCL failed: EI0006", "hccl.connect_timeout"),
        (FAILED, "[ERROR] request 12 failed: Address already in use", "network.port_in_use"),
        ("错误 {} 操作失败 {number} {}", "错误: 设备上没有空间", "host.disk_full"),
    ],
)  # fmt: skip
def test_a_cause_in_a_flood(tmp_path: Path, line: str, among: str, name: str) -> None:
    """A line that the catalogue knows is found in the midst of a flood, with its number."""
    lines = list(flood(line))
    lines[LINES - 5000 : LINES - 5000] = [among]
    found = read(tmp_path, lines)

    assert [(one.name, one.count, one.evidence[0].line) for one in found.diagnoses] == [(name, 1, LINES - 4999)]


def test_an_exception_in_a_flood(tmp_path: Path) -> None:
    """A traceback between the lines of a flood is still read, though many came before it."""
    trace = ["Traceback (most recent call last):", '  File "/w/a.py", line 3, in go', "FooError: no"]
    some = list(flood(FAILED))
    lines = [*some, *(one for at in range(300) for one in (some[at] + " again", *trace)), *some[:2000], *trace]
    found = read(tmp_path, lines)

    assert found.raised
    assert (found.raised.what, found.raised.raised_in) == ("FooError: no", "/w/a.py:3, in go")
    assert found.raised.line == len(lines) - 2


def test_prose_of_the_catalogues_own_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of lines of alarm, each in other words of the catalogue, few are looked at; a cause and a traceback are found."""
    looked, first = Counter[str](), Scan._first

    def looking(self: Scan, lines: list[bytes], at: int, number: int, key: bytes) -> tuple[str, ...]:
        looked["lines"] += 1
        return first(self, lines, at, number, key)

    monkeypatch.setattr(Scan, "_first", looking)
    words = [word for word in sorted(session.index().words) if not list(session.index().of(f"not only {word}"))][::9]
    lines = [f"not only {one}, without {other}" for one, other in itertools.product(words, repeat=2)]
    trace = ["Traceback (most recent call last):", '  File "/w/a.py", line 3, in go', "FooError: no"]
    lines[15_000:15_000] = ["OSError: [Errno 28] No space left on device", *trace]
    found = read(tmp_path, lines)

    assert ("host.disk_full", 1, 15_001) in [(one.name, one.count, one.evidence[0].line) for one in found.diagnoses]
    assert found.raised and found.raised.line == 15_002
    assert looked["lines"] < len(lines) // 2

    monkeypatch.setattr("envcheck.explain.scan.MANY", 1.1)  # each by itself

    assert read(tmp_path, lines) == found


def test_the_last_lines_of_a_flood_are_told(tmp_path: Path) -> None:
    """Where nothing is known the last alarm is among the telling lines, though dull lines come after it."""
    lines = [*flood(FAILED), "[ERROR] request tomato failed: pepper"]
    found = read(tmp_path, [*lines, *(f"step {number} is made" for number in range(3000))])

    assert not found.diagnoses
    assert (LINES + 1, lines[-1]) in [(one.line, one.text) for one in found.telling]


def test_little_is_done_for_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of forty thousand such lines few are looked at one by one, fewer are compared with the catalogue."""
    looked, asked = Counter[str](), Counter[str]()
    first, of = Scan._first, Index.of

    def looking(self: Scan, lines: list[bytes], at: int, number: int, key: bytes) -> tuple[str, ...]:
        looked["lines"] += 1
        return first(self, lines, at, number, key)

    def asking(self: Index, text: str, around: Callable[[], str]) -> Iterator[tuple[Entry, dict[str, str]]]:
        asked["lines"] += 1
        return of(self, text, around)

    monkeypatch.setattr(Scan, "_first", looking)
    monkeypatch.setattr(Index, "of", asking)
    read(tmp_path, list(flood(f"{FAILED} not found, retrying")))

    assert 100 < asked["lines"] < 2000
    assert looked["lines"] < LINES // 4


def test_long_lines_are_forgotten() -> None:
    """What is remembered of lines is bounded in bytes, too: 40 MB of lines of 128 KiB leave half of them at most."""
    one = Scan("log", session.index())
    for number in range(300):
        one.feed(WORDS[number].encode() * (1 << 15) + b"\n")

    assert sum(map(len, one._dull | one._hot)) < 20 << 20


def test_known_lines_in_other_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of thousands of lines of one entry few are compared with the catalogue, all are counted; codes always are."""
    asked, of = Counter[str](), Index.of

    def asking(self: Index, text: str, around: Callable[[], str]) -> Iterator[tuple[Entry, dict[str, str]]]:
        asked["lines"] += 1
        return of(self, text, around)

    monkeypatch.setattr(Index, "of", asking)
    lines = list(flood("{} no space left on device {}"))
    lines[LINES - 9 : LINES - 9] = [
        "bad no space left on device, error code is 507033",
        "Address already in use",
        "xshmx no space left on device",  # which an entry for it excludes, and another one claims
    ]
    found = read(tmp_path, lines)

    assert asked["lines"] < 2000
    assert {one.name: one.count for one in found.diagnoses}.items() >= {
        "host.disk_full": LINES + 1,
        "acl.device_setup": 1,
        "memory.shm": 1,
        "network.port_in_use": 1,
    }.items()


def test_an_error_among_warnings_of_the_same_words(tmp_path: Path) -> None:
    """A cause that was said as a warning thousands of times is a cause when it is said as an error once."""
    lines = list(flood("[WARNING] {} no space left on device {}"))
    told = read(tmp_path, [*lines, "[SEVERE] no space left on device"])

    assert [(one.name, one.kind) for one in read(tmp_path, lines).diagnoses] == [("host.disk_full", "warning")]
    assert [(one.name, one.kind, one.count) for one in told.diagnoses] == [("host.disk_full", "cause", LINES + 1)]
