"""The most relevant lines of a log that the catalogue does not know; pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from envcheck.explain.diagnosis import Evidence
from envcheck.explain.log_findings import LogFindings
from envcheck.explain.log_level import is_mild, is_tried
from envcheck.explain.prefilter import DIGITS

SHOWN = 10
ALARM = 3.0  # score of a line that reports an error
_LAST = re.compile(r"^(?:\[[^\]]{1,40}\]:? ?){0,2}[A-Za-z_][\w.]{0,100}(?:Error|Exception|Interrupt|Exit|Failure)\b")
_LOUD = re.compile(
    r"\b(?:FATAL|CRITICAL|PANIC|panic|fatal|Fatal|core dumped|Segmentation|terminate called"
    r"|died unexpectedly)\b|^I\d{4} \d.{0,160}\] Error (?:waiting|while|during|in)\b"
)
_ERROR = re.compile(
    # a word of its own, not a part of the name of a file or package
    r"(?<![\w/-])(?:ERROR|Error|error|failed|Failed|FAILED|failure|cannot|Cannot|unable|Unable)\b(?![-./]\w)|错误|失败|异常"
)
_MILD = re.compile(
    r"\b(?:INFO|DEBUG|WARN|WARNING|DeprecationWarning|FutureWarning|UserWarning)\b"
    r"|^[IW]\d{4} \d\d:\d\d:|\bno errors?\b|\b0 (?:errors|failed)\b",
    re.IGNORECASE,
)
# Words for an end, or for something that is missing, in lines that report no error.
_TROUBLE = re.compile(
    r"\b(?:exit(?:ed|s|ing)?\b(?! (?:successfully|(?:with )?(?:code|status)[ =:]{1,3}0\b))"
    r"|kill\w{0,4}|abort\w{0,4}|crash\w{0,3}"
    r"|terminat\w{0,4}|dea(?:d|th)|died|h[au]ngs?|stuck|time[ds]?[- ]?out|exception|traceback|signal|SIG[A-Z]{2,5}"
    r"|refused|denied|lost|broken|corrupt\w{0,3}|invalid|not found|no such|missing|unhandled|unsupported|mismatch"
    r"|interrupt\w{0,3}|exceed\w{0,3}|insufficient|oom|out of|no space|panic|dump\w{0,3}"
    r"|unreachable|conflict\w{0,3}|[EF]\d{4} )",
    re.IGNORECASE,
)
# What apt and pip print when they are done; what they reported before it did not stop them.
_INSTALLED = r"^Successfully installed |^Processing triggers for |^Setting up \S{1,80} \("
_INSTALLS = re.compile(
    r"^ {0,4}(?:Collecting |Preparing (?:metadata|to unpack)|Building wheel|Get:\d|Hit:\d|Reading package lists"
    r"|Unpacking |Selecting )"
)
# A program at work: its level of ordinary messages, its bars, its epochs.
_WORK = re.compile(
    r"\b(?:INFO|SUCC)\b|^I\d{4} \d\d:\d\d:|^ {0,8}Normal {1,12}Started\b"
    rf"|{_INSTALLED}|\b[Tt]raining\b|\b[Ee]pochs?\b"
    r"|\bserver is listening on\b|\ball slots are idle\b"
    r"|\b(?:it|examples)/s\b|\bs/it\b|\b[Ss]teps? \d"
)
# What a banner prints at each start, and pip of other packages when it has installed some.
_BANNER = re.compile(r"\bbug reports?\b|\berror trace to\b|\bdependency resolver does not\b", re.IGNORECASE)
_SUCCESS = re.compile(
    r"\bSUCC\b|\b(?:runtime|service|server|cluster|node) (?:has )?started\b|\b(?:succeeded|successfully)\b"
    rf"|{_INSTALLED}|\b[Ss]erver is up\b(?! yet)"
    r"|\d{1,9}/\d{1,9} \[[\d:]{2,12}<|^ {0,8}Normal {1,12}Started\b"
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
    if scan.is_replaced:
        return False
    last = max(scan.trains, scan.progress.last.number if scan.progress.last else 0, scan.progress.answered)
    lines = [one for one in scan.odd if one.line > last and one.line not in scan.progress.served]
    return any(_is_alarm(one.text) or (one.line == scan.read and "fatal: " in one.text) for one in lines)


def has_trouble(scan: LogFindings) -> bool:
    """Return whether any unknown line may report a failure, or that something ended or is missing."""
    mild = {
        number
        for hit in scan.hits.values()
        if hit.mild
        for number in (hit.last, *(one.line for one in hit.first_lines))
    }
    lines = (line for line in (*scan.odd, *scan.tail) if line.line not in mild)
    worked = max((one.line for one in scan.tail if _is_work(one.text)), default=0)
    said = [one for one in lines if not _BANNER.search(one.text)]
    said = [one for one in said if not is_mild(one.text) or (one.line > worked and is_tried(one.text))]
    begin = min((one.line for one in scan.tail if _INSTALLS.search(one.text)), default=scan.read)
    installed = max((one.line for one in scan.tail if re.search(_INSTALLED, one.text)), default=0)
    return any(_score_text(one.text, False) >= ALARM for one in said) or any(
        _TROUBLE.search(one.text) and not _MILD.search(one.text) for one in said if not begin < one.line < installed
    )


def has_work(scan: LogFindings) -> bool:
    """Return whether the last lines are of a program at work, as far as they tell."""
    return any(_WORK.search(line.text) for line in scan.tail)


def _is_work(text: str) -> bool:
    return not is_mild(text) and bool(_WORK.search(text) or _SUCCESS.search(text))


def has_success(scan: LogFindings, line: int) -> bool:
    """Return whether a line near the end, after that one, reports that a program started or succeeded."""
    return any(one.line > line and _SUCCESS.search(one.text) for one in scan.tail)


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


def _is_alarm(text: str) -> bool:
    return _score_text(text, False) >= ALARM and not is_mild(text)


def _score_text(text: str, ends_a_traceback: bool) -> float:
    score = 6.0 if ends_a_traceback or _LAST.match(text) else 0.0
    score += 4 * bool(_LOUD.search(text)) + 3 * bool(_ERROR.search(text))
    return score - 3 * bool(_MILD.search(text)) - 3 * bool(_CODE.match(text))
