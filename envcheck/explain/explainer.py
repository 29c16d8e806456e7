"""From logs, lines or codes to a report: the entry points of this package."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from envcheck.core.messages import _
from envcheck.explain import catalogue, causality, codes, log_files, parallel
from envcheck.explain.diagnosis import Diagnosis, Evidence, ExplainReport, RaisedException
from envcheck.explain.index import EntryIndex
from envcheck.explain.log_findings import LogFindings
from envcheck.explain.relevant_lines import select_relevant_lines
from envcheck.explain.scan import scan_blocks

LOUD = ("cause", "symptom")


@functools.cache
def load_index() -> EntryIndex:
    return EntryIndex(catalogue.load_entries())


def diagnose(
    lines: Iterable[str], *, name: str = "log", code: int | None = None, kernel: Iterable[str] = ()
) -> tuple[Diagnosis, ...]:
    """Return the diagnoses for the lines of one worker, the cause first; empty if nothing is known.

    `code` is the exit status, minus the signal number for a signal; `kernel` are lines of the kernel log of that time
    (`envcheck.explain.kernel_log.read_lines`): only they distinguish an out-of-memory SIGKILL from others.
    """
    logs = [_scan_lines(name, lines, every=True), _scan_lines(_("kernel log"), kernel, every=True)]
    told = causality.order_diagnoses([one for one in logs if one.size], load_index().entries)
    ended = () if code is None or code == 0 else tuple(d for d in explain_codes([str(code)]) if d.name != "exit.status")
    known = {diagnosis.name for diagnosis in told}
    return (*told, *(_link_to_cause(one, told) for one in ended if one.name not in known))


def _link_to_cause(one: Diagnosis, told: Sequence[Diagnosis]) -> Diagnosis:
    cause = next((d.name for d in told if d.kind in LOUD), "")
    return replace(one, caused_by=cause)


def explain_codes(words: Iterable[str]) -> tuple[Diagnosis, ...]:
    """Return the explanations of bare codes; unknown codes are left out."""
    claimed = catalogue.index_by_code(load_index().entries.values())
    told = []
    for word in words:
        code = codes.explain_code(word)
        asked = word if code is None else code.name if code.family == "signal" else code.code
        found = claimed.get(asked.strip().upper())
        entry = found or (code and (load_index().entries.get(code.entry) or load_index().entries["exit.signal"]))
        if entry:
            name = (
                f"{code.name}: {code.meaning}"
                if code and code.name and code.family != "signal"
                else code and code.meaning
            )
            said = f"{word.strip()}: {name}" if name else word.strip()
            seen = Evidence("code", 0, said, ours=code.meaning if code else "")
            told.append(causality.make_diagnosis(entry, {"code": word.strip()}, (seen,), 1))
    return tuple(told)


_TOKEN = re.compile(
    r"(?<![\w-])(?:E[A-Z1-9]\d{4}|ERR\d{5}|[1-5]\d{5}|-8\d{3}|SIG[A-Z]{2,8}|nccl[A-Z]\w{4,30}|HCCL_E_\w{3,30}|cudaError\w{3,40})(?!\w)"
)


def explain_arguments(words: Sequence[str]) -> ExplainReport:
    """Explain the command line: codes if all arguments are codes, otherwise one text; codes inside it if nothing
    matches.
    """
    whole = " ".join(words)
    if told := explain_codes([whole]) or (explain_codes(words) if all(map(codes.explain_code, words)) else ()):
        return ExplainReport(told, None, (), ((_("command line"), 1, len(whole)),))
    found = build_report([_scan_lines(_("command line"), whole.splitlines(), every=True)])
    if not found.diagnoses and (told := explain_codes(dict.fromkeys(_TOKEN.findall(whole)))):
        return replace(found, diagnoses=told, relevant_lines=())
    return found


def explain_files(paths: Sequence[Path]) -> ExplainReport:
    """Explain files, folders of rank logs, and `-`.  UsageError if a file that was named itself cannot be read."""
    found = list(dict.fromkeys(file for path in paths for file in log_files.list_log_files(path)))
    return build_report(parallel.scan_logs(found, load_index()))


def _scan_lines(name: str, lines: Iterable[str], every: bool = False) -> LogFindings:
    blocks = ((line.rstrip("\n") + "\n").encode("utf-8", "replace") for line in lines)
    return scan_blocks(name, log_files.join_lines(blocks), load_index(), every)


def build_report(scans: Sequence[LogFindings]) -> ExplainReport:
    """Return the combined report of several logs."""
    told = causality.order_diagnoses(scans, load_index().entries)
    raised = _choose_exception(scans, told)
    known = any(diagnosis.kind != "warning" for diagnosis in told)
    return ExplainReport(
        diagnoses=told,
        raised=raised,
        relevant_lines=() if known else select_relevant_lines(scans),
        read=tuple((one.name, one.read, one.size) for one in scans),
        first=_find_first_failed(told, raised) if len(scans) > 1 else "",
    )


def _find_first_failed(told: Sequence[Diagnosis], raised: RaisedException | None) -> str:
    loud = [diagnosis for diagnosis in told if diagnosis.kind in LOUD]
    return loud[0].evidence[0].file if loud else raised.file if raised else ""


def _choose_exception(scans: Sequence[LogFindings], told: Sequence[Diagnosis]) -> RaisedException | None:
    """The exception of the first diagnosis; otherwise the last one in the log that failed first."""
    ends = [one for scan in scans for one in scan.raised if one.line >= scan.trains]
    if not ends:
        return None
    loud = next((one.evidence[0] for one in told if one.kind in LOUD), None)
    if loud:
        of_it = [end for end in ends if end.file == loud.file and end.text in loud.text]
        mine = of_it or [end for end in ends if end.file == loud.file][-1:]
        if mine:
            return mine[0]
    last = [scan.raised[-1] for scan in scans if scan.raised and scan.raised[-1] in ends]
    timed = [end for end in last if end.time is not None]
    return min(timed, key=lambda end: end.time or 0.0) if len(timed) == len(last) else last[0]
