"""Logs of nothing but errors that no entry knows, each in other words: little is done for each, no cause is lost."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from envcheck.explain import explainer
from envcheck.explain.diagnosis import CatalogueEntry, ExplainReport
from envcheck.explain.index import EntryIndex
from envcheck.explain.scan import LogScanner

pytestmark = pytest.mark.slow

LINES = 40_000  # about 2.5 MiB
FAILED = "[ERROR] request {number} {} failed: {}"
WORDS = tuple(map("".join, itertools.product("bdfgklmprst", "aeiou", "bdfgklmprst", "aeiou")))


def make_flood(line: str) -> Iterator[str]:
    """Lines that differ in two words, each pair unique."""
    for number, pair in enumerate(itertools.product(WORDS, repeat=2)):
        if number == LINES:
            return
        yield line.format(*pair, number=number)


def explain_lines(folder: Path, lines: list[str]) -> ExplainReport:
    (folder / "a.log").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return explainer.explain_files([folder / "a.log"])


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
    lines = list(make_flood(line))
    lines[LINES - 5000 : LINES - 5000] = [among]
    found = explain_lines(tmp_path, lines)

    assert [(one.name, one.count, one.evidence[0].line) for one in found.diagnoses] == [(name, 1, LINES - 4999)]


def test_an_exception_in_a_flood(tmp_path: Path) -> None:
    """A traceback between the lines of a flood is still read, though many came before it."""
    trace = ["Traceback (most recent call last):", '  File "/w/a.py", line 3, in go', "FooError: no"]
    some = list(make_flood(FAILED))
    lines = [*some, *(one for at in range(300) for one in (some[at] + " again", *trace)), *some[:2000], *trace]
    found = explain_lines(tmp_path, lines)

    assert found.raised
    assert (found.raised.text, found.raised.raised_in) == ("FooError: no", "/w/a.py:3, in go")
    assert found.raised.line == len(lines) - 2


def test_prose_of_the_catalogues_own_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of alarming lines with varying catalogue words, few are examined; a cause and a traceback are found."""
    looked, first = Counter[str](), LogScanner._match_new_line

    def looking(self: LogScanner, lines: list[bytes], at: int, number: int, key: bytes) -> tuple[str, ...]:
        looked["lines"] += 1
        return first(self, lines, at, number, key)

    monkeypatch.setattr(LogScanner, "_match_new_line", looking)
    words = [
        word
        for word in sorted(explainer.load_index().words)
        if not list(explainer.load_index().match_line(f"not only {word}"))
    ][::9]
    lines = [f"not only {one}, without {other}" for one, other in itertools.product(words, repeat=2)]
    trace = ["Traceback (most recent call last):", '  File "/w/a.py", line 3, in go', "FooError: no"]
    lines[15_000:15_000] = ["OSError: [Errno 28] No space left on device", *trace]
    found = explain_lines(tmp_path, lines)

    assert ("host.disk_full", 1, 15_001) in [(one.name, one.count, one.evidence[0].line) for one in found.diagnoses]
    assert found.raised and found.raised.line == 15_002
    assert looked["lines"] < len(lines) // 2

    monkeypatch.setattr("envcheck.explain.scan.MANY", 1.1)  # each by itself

    assert explain_lines(tmp_path, lines) == found


def test_the_last_lines_of_a_flood_are_told(tmp_path: Path) -> None:
    """Where nothing is known the last alarm is among the telling lines, though dull lines come after it."""
    lines = [*make_flood(FAILED), "[ERROR] request tomato failed: pepper"]
    found = explain_lines(tmp_path, [*lines, *(f"part {number} is made" for number in range(3000))])

    assert not found.diagnoses
    assert (LINES + 1, lines[-1]) in [(one.line, one.text) for one in found.relevant_lines]


def test_little_is_done_for_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of forty thousand such lines, few are examined and fewer are matched."""
    looked, asked = Counter[str](), Counter[str]()
    first, of = LogScanner._match_new_line, EntryIndex.match_line

    def looking(self: LogScanner, lines: list[bytes], at: int, number: int, key: bytes) -> tuple[str, ...]:
        looked["lines"] += 1
        return first(self, lines, at, number, key)

    def asking(
        self: EntryIndex, text: str, around: Callable[[], str]
    ) -> Iterator[tuple[CatalogueEntry, dict[str, str]]]:
        asked["lines"] += 1
        return of(self, text, around)

    monkeypatch.setattr(LogScanner, "_match_new_line", looking)
    monkeypatch.setattr(EntryIndex, "match_line", asking)
    explain_lines(tmp_path, list(make_flood(f"{FAILED} not found, retrying")))

    assert 100 < asked["lines"] < 2000
    assert looked["lines"] < LINES // 4


def test_long_lines_are_forgotten() -> None:
    """What is remembered of lines is bounded in bytes, too: 40 MB of lines of 128 KiB leave half of them at most."""
    one = LogScanner("log", explainer.load_index())
    for number in range(300):
        one.feed_block(WORDS[number].encode() * (1 << 15) + b"\n")

    assert sum(map(len, one._dull | one._hot)) < 20 << 20


def test_known_lines_in_other_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of thousands of lines of one entry few are compared with the catalogue, all are counted; codes always are."""
    asked, of = Counter[str](), EntryIndex.match_line

    def asking(
        self: EntryIndex, text: str, around: Callable[[], str]
    ) -> Iterator[tuple[CatalogueEntry, dict[str, str]]]:
        asked["lines"] += 1
        return of(self, text, around)

    monkeypatch.setattr(EntryIndex, "match_line", asking)
    lines = list(make_flood("{} no space left on device {}"))
    lines[LINES - 9 : LINES - 9] = [
        "bad no space left on device, error code is 507033",
        "Address already in use",
        "xshmx no space left on device",  # which an entry for it excludes, and another one claims
    ]
    found = explain_lines(tmp_path, lines)

    assert asked["lines"] < 2000
    assert {one.name: one.count for one in found.diagnoses}.items() >= {
        "host.disk_full": LINES + 1,
        "acl.device_setup": 1,
        "memory.shm": 1,
        "network.port_in_use": 1,
    }.items()


def test_an_error_among_warnings_of_the_same_words(tmp_path: Path) -> None:
    """A cause that was logged thousands of times as a warning counts when it is logged once as an error."""
    lines = list(make_flood("[WARNING] {} no space left on device {}"))
    told = explain_lines(tmp_path, [*lines, "[SEVERE] no space left on device"])

    assert [(one.name, one.kind) for one in explain_lines(tmp_path, lines).diagnoses] == [("host.disk_full", "warning")]
    assert [(one.name, one.kind, one.count) for one in told.diagnoses] == [("host.disk_full", "cause", LINES + 1)]
