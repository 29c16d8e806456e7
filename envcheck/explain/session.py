"""From logs, lines or codes to a report: the three questions that others ask of this package."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from envcheck.explain import catalogue, codes, order, parallel, reading
from envcheck.explain.found import Found
from envcheck.explain.index import Index
from envcheck.explain.model import Diagnosis, Evidence, Raised, Report
from envcheck.explain.scan import scan
from envcheck.explain.telling import telling

LOUD = ("cause", "symptom")


@functools.cache
def index() -> Index:
    return Index(catalogue.entries())


def diagnose(
    lines: Iterable[str], *, name: str = "log", code: int | None = None, kernel: Iterable[str] = ()
) -> tuple[Diagnosis, ...]:
    """What the lines of one worker say, the cause first; empty when nothing is known.

    `code` is how it ended, minus a signal's number; `kernel` are lines of the kernel's log of that time
    (`envcheck.explain.kernel.lines`), which alone tell a SIGKILL for want of memory from somebody's.
    """
    logs = [_lines(name, lines, every=True), _lines("kernel log", kernel, every=True)]
    told = order.diagnoses([one for one in logs if one.size], index().entries)
    ended = () if code is None or code == 0 else tuple(d for d in explain_codes([str(code)]) if d.name != "exit.status")
    known = {diagnosis.name for diagnosis in told}
    return (*told, *(_after(one, told) for one in ended if one.name not in known))


def _after(one: Diagnosis, told: Sequence[Diagnosis]) -> Diagnosis:
    cause = next((d.name for d in told if d.kind in LOUD), "")
    return replace(one, follows=cause)


def explain_codes(words: Iterable[str]) -> tuple[Diagnosis, ...]:
    """Bare codes; one that is not known is left out."""
    claimed = catalogue.by_code(index().entries.values())
    told = []
    for word in words:
        code = codes.read(word)
        asked = word if code is None else code.name if code.family == "signal" else code.code
        found = claimed.get(asked.strip().upper())
        entry = found or (code and (index().entries.get(code.entry) or index().entries["exit.signal"]))
        if entry:
            name = (
                f"{code.name}: {code.meaning}"
                if code and code.name and code.family != "signal"
                else code and code.meaning
            )
            said = f"{word.strip()}: {name}" if name else word.strip()
            seen = Evidence("code", 0, said, ours=code.meaning if code else "")
            told.append(order.made_of(entry, {"code": word.strip()}, (seen,), 1))
    return tuple(told)


_TOKEN = re.compile(
    r"(?<![\w-])(?:E[A-Z1-9]\d{4}|ERR\d{5}|[1-5]\d{5}|-8\d{3}|SIG[A-Z]{2,8}|nccl[A-Z]\w{4,30}|HCCL_E_\w{3,30}|cudaError\w{3,40})(?!\w)"
)


def explain_words(words: Sequence[str]) -> Report:
    """What stood on the command line: codes when all are, else one text; codes inside a text that says no more."""
    whole = " ".join(words)
    if told := explain_codes([whole]) or (explain_codes(words) if all(map(codes.read, words)) else ()):
        return Report(told, None, (), (("command line", 1, len(whole)),))
    found = report([_lines("command line", whole.splitlines(), every=True)])
    if not found.diagnoses and (told := explain_codes(dict.fromkeys(_TOKEN.findall(whole)))):
        return replace(found, diagnoses=told, telling=())
    return found


def explain_files(paths: Sequence[Path]) -> Report:
    """Files, folders of ranks' logs, `-`.  UsageError when one cannot be read, and it was named itself."""
    found = list(dict.fromkeys(file for path in paths for file in reading.files(path)))
    return report(parallel.read(found, index()))


def _lines(name: str, lines: Iterable[str], every: bool = False) -> Found:
    blocks = ((line.rstrip("\n") + "\n").encode("utf-8", "replace") for line in lines)
    return scan(name, reading.gathered(blocks), index(), every)


def report(scans: Sequence[Found]) -> Report:
    """What several logs say together."""
    told = order.diagnoses(scans, index().entries)
    raised = _raised(scans, told)
    known = any(diagnosis.kind != "warning" for diagnosis in told)
    return Report(
        diagnoses=told,
        raised=raised,
        telling=() if known else telling(scans),
        read=tuple((one.name, one.read, one.size) for one in scans),
        first=_first(told, raised) if len(scans) > 1 else "",
    )


def _first(told: Sequence[Diagnosis], raised: Raised | None) -> str:
    loud = [diagnosis for diagnosis in told if diagnosis.kind in LOUD]
    return loud[0].evidence[0].file if loud else raised.file if raised else ""


def _raised(scans: Sequence[Found], told: Sequence[Diagnosis]) -> Raised | None:
    """The exception that the first diagnosis is of; else the last one of the log that failed first."""
    ends = [one for scan in scans for one in scan.raised if one.line >= scan.trains]
    if not ends:
        return None
    loud = next((one.evidence[0] for one in told if one.kind in LOUD), None)
    if loud:
        of_it = [end for end in ends if end.file == loud.file and end.what in loud.text]
        mine = of_it or [end for end in ends if end.file == loud.file][-1:]
        if mine:
            return mine[0]
    last = [scan.raised[-1] for scan in scans if scan.raised and scan.raised[-1] in ends]
    timed = [end for end in last if end.time is not None]
    return min(timed, key=lambda end: end.time or 0.0) if len(timed) == len(last) else last[0]
