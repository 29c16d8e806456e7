"""The most relevant lines of a log that the catalogue does not know; pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from envcheck.explain.diagnosis import Evidence
from envcheck.explain.log_findings import LogFindings
from envcheck.explain.prefilter import DIGITS

SHOWN = 10
ALARM = 3.0  # score of a line that reports an error
_LAST = re.compile(r"^(?:\[[^\]]{1,40}\]:? ?){0,2}[A-Za-z_][\w.]{0,100}(?:Error|Exception|Interrupt|Exit|Failure)\b")
_LOUD = re.compile(r"\b(?:FATAL|CRITICAL|PANIC|panic|fatal|Fatal|core dumped|Segmentation|terminate called)\b")
_ERROR = re.compile(
    r"\b(?:ERROR|Error|error|failed|Failed|FAILED|failure|cannot|Cannot|unable|Unable)\b|错误|失败|异常"
)
_MILD = re.compile(
    r"\b(?:INFO|DEBUG|WARNING|DeprecationWarning|FutureWarning|UserWarning)\b|\bno errors?\b|\b0 (?:errors|failed)\b",
    re.IGNORECASE,
)
_CODE = re.compile(r'^(?:\s{4}|\s{0,40}(?:File "|raise |return |\^|~))')


def select_relevant_lines(scans: Sequence[LogFindings]) -> tuple[Evidence, ...]:
    """Return at most ten lines, in the order of the log."""
    places = {scan.name: at for at, scan in enumerate(scans)}
    scored = [(score, line) for scan in scans for score, line in _score_lines(scan) if score > 0 and line.text.strip()]
    best = sorted(scored, key=lambda one: (-one[0], places[one[1].file], -one[1].line))
    kept: dict[str, Evidence] = {}
    for _, line in best:
        kept.setdefault(_drop_digits(line.text), line)  # ranks report the same, except for figures
        if len(kept) == SHOWN:
            break
    return tuple(sorted(kept.values(), key=lambda line: (places[line.file], line.line)))


def has_alarm(scan: LogFindings) -> bool:
    """Return whether an unknown line after the last step reports an error."""
    last = max(scan.trains, scan.progress.last.number if scan.progress.last else 0)
    return any(_score_text(line.text, False) >= ALARM for line in scan.odd if line.line > last)


def _score_lines(scan: LogFindings) -> Iterable[tuple[float, Evidence]]:
    ends = {raised.text[:60] for raised in scan.raised}
    rare = Counter(_drop_digits(line.text) for line in scan.tail)
    last = {line.line for line in list(scan.tail)[-3:]}
    seen = {line.line for line in scan.odd}
    for line in scan.odd:
        often = scan.odd_seen[line.text.encode().translate(None, DIGITS)]
        yield _score_text(line.text, any(end in line.text for end in ends)) - (2 if often > 20 else 0), line
    for line in scan.tail:
        if line.line not in seen:
            yield _score_text(line.text, False) + 0.5 * (rare[_drop_digits(line.text)] == 1) + (line.line in last), line


def _drop_digits(text: str) -> str:
    return text.encode().translate(None, DIGITS).decode()


def _score_text(text: str, ends_a_traceback: bool) -> float:
    score = 6.0 if ends_a_traceback or _LAST.match(text) else 0.0
    score += 4 * bool(_LOUD.search(text)) + 3 * bool(_ERROR.search(text))
    return score - 3 * bool(_MILD.search(text)) - 3 * bool(_CODE.match(text))
