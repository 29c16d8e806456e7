"""From logs, lines or codes to a report: the entry points of this package."""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from envcheck.core.messages import _
from envcheck.explain import catalogue, causality, codes, log_files, parallel, process_ends
from envcheck.explain.components.component_messages import choose_message
from envcheck.explain.diagnosis import (
    QUIET,
    CatalogueEntry,
    Diagnosis,
    Evidence,
    ExplainReport,
    RaisedException,
    Verdict,
    WarningMeaning,
)
from envcheck.explain.exception_forms import REPEATING, explain_exception, repeats_exception
from envcheck.explain.exceptions import installed_versions
from envcheck.explain.exceptions.known_bugs import find_bug
from envcheck.explain.exceptions.notices import begins_report, is_general, is_only_code, lists_loads
from envcheck.explain.index import EntryIndex
from envcheck.explain.log_findings import LogFindings
from envcheck.explain.passed_on import find_innermost
from envcheck.explain.processes.attempts import have_attempts, list_replaced_logs
from envcheck.explain.processes.outcome_text import describe_first_failure
from envcheck.explain.processes.process_end import BROKEN, FAILED, FirstFailedProcess, ProcessEnd, find_first_failure
from envcheck.explain.processes.rank_names import find_prefix_rank
from envcheck.explain.relevant_lines import has_alarm, has_success, has_trouble, has_work, select_relevant_lines
from envcheck.explain.scan import scan_blocks

LOUD = ("cause", "symptom")
REPORT_LINES = 8  # of a library after the exception that has its number
LOAD_LINES = 24  # of attempts to load a library, after the exception that lists them
EVENTS = ("components.kubernetes_event",)  # their level says that something is wrong, whatever their words
LAST_LINES = 12  # of a log, in which it says what it waits for
DIVERGED = "training.nan"  # a warning, unless the training goes on so to its end
UNKNOWN = "exceptions.unknown"
_SHELL_LINE = re.compile(r"^[\w./~-]{1,160}: (?:line )?\d{1,6}: ")  # of a script that went on
SHELL_LINES = 20  # an unknown exception so shortly after what a script did not start is its consequence
NEAR_LINES = 40  # a known cause so many lines before an unknown exception led to it
CHAIN_LINES = 200  # of a chain of exceptions


@functools.cache
def load_index() -> EntryIndex:
    return EntryIndex(catalogue.load_line_entries())


def diagnose(
    lines: Iterable[str], *, name: str = "log", code: int | None = None, kernel: Iterable[str] = ()
) -> tuple[Diagnosis, ...]:
    """Return the diagnoses for the lines of one worker, the cause first; empty if nothing is known.

    `code` is the exit status, minus the signal number for a signal; `kernel` are lines of the kernel log of that time
    (`envcheck.explain.kernel_log.read_lines`): only they distinguish an out-of-memory SIGKILL from others.
    """
    logs = _drop_contradicted([_scan_lines(name, lines, every=True), _scan_lines(_("kernel log"), kernel, every=True)])
    told = _name_versions(logs, _diagnose_scans([one for one in logs if one.size], _find_ends(logs[:1])))
    ended = () if code is None or code == 0 else tuple(d for d in explain_codes([str(code)]) if d.name != "exit.status")
    known = {diagnosis.name for diagnosis in told}
    return (*told, *(_link_to_cause(one, told) for one in ended if one.name not in known))


def _link_to_cause(one: Diagnosis, told: Sequence[Diagnosis]) -> Diagnosis:
    cause = next((d.name for d in told if d.kind in LOUD), "")
    return replace(one, caused_by=cause)


def explain_codes(words: Iterable[str]) -> tuple[Diagnosis, ...]:
    """Return the explanations of bare codes; unknown codes are left out."""
    claimed = load_index().owners
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
    found = build_report([_scan_lines(_("command line"), whole.splitlines(), every=True)], is_log=False)
    if not found.diagnoses and (told := explain_codes(dict.fromkeys(_TOKEN.findall(whole)))):
        return replace(found, diagnoses=told, relevant_lines=(), verdict="explained")
    return found


def explain_files(paths: Sequence[Path], known: Verdict | None = None) -> ExplainReport:
    """Explain files, folders of rank logs, and `-`; `known` is the verdict if a record has it.

    UsageError if a file that was named itself cannot be read.
    """
    found = list(dict.fromkeys(file for path in paths for file in log_files.list_readable_logs(path)))
    return build_report(parallel.scan_logs(found, load_index()), settled=known)


def _scan_lines(name: str, lines: Iterable[str], every: bool = False) -> LogFindings:
    blocks = ((line.rstrip("\n") + "\n").encode("utf-8", "replace") for line in lines)
    return scan_blocks(name, log_files.join_lines(blocks), load_index(), every)


def build_report(scans: Sequence[LogFindings], is_log: bool = True, settled: Verdict | None = None) -> ExplainReport:
    """Return the combined report of several logs, or of a text that is not one; `settled` is a known verdict."""
    scans = _drop_contradicted(_mark_replaced(scans))
    ends = _find_ends(scans)
    told = _drop_ended_waits(scans, _promote_divergence(scans, _diagnose_scans(scans, ends)))
    judged = settled or _judge_verdict(scans, ends)
    if judged not in QUIET:
        told = _add_last_resort(scans, told)
    if judged == "unknown" and _is_without_failure(scans, told):
        judged = "no_failure"
    raised = _choose_exception(scans, told, ends)
    known = any(diagnosis.kind != "warning" for diagnosis in told) or bool(told and not is_log)
    first = find_first_failure(ends)
    verdict = judged if is_log else "explained" if told else "unknown"
    quiet = known or verdict in QUIET
    return ExplainReport(
        diagnoses=_name_versions(scans, told),
        raised=raised,
        relevant_lines=() if quiet else select_relevant_lines(scans),
        read=tuple((one.name, one.read, one.size) for one in scans),
        first=_find_first_failed(told, raised, first, ends) if len(scans) > 1 else "",
        verdict=verdict,
        ends=ends if is_log else (),
        summary=describe_first_failure(ends, first),
    )


def _find_ends(scans: Sequence[LogFindings]) -> tuple[ProcessEnd, ...]:
    return process_ends.list_process_ends(scans, load_index().entries)


def _mark_replaced(scans: Sequence[LogFindings]) -> list[LogFindings]:
    """Return the findings; of attempts that a later one replaced, no line ended the training."""
    logs = [scan.name for scan in scans]
    replaced = list_replaced_logs(logs, _find_ends(scans)) if have_attempts(logs) else frozenset()
    return [replace(scan, is_replaced=True) if scan.name in replaced else scan for scan in scans]


def _choose_versions(scans: Sequence[LogFindings]) -> Mapping[str, str]:
    return installed_versions.choose_versions(one for scan in scans for one in scan.versions)


def _drop_contradicted(scans: Sequence[LogFindings]) -> list[LogFindings]:
    """Return the findings without the lines of entries that a printed version excludes."""
    installed, entries = _choose_versions(scans), load_index().entries
    excluded = {
        name
        for scan in scans
        for name in scan.hits
        if name in entries and installed_versions.contradicts(entries[name].installed, installed)
    }
    return [
        replace(scan, hits={name: hit for name, hit in scan.hits.items() if name not in excluded}) for scan in scans
    ]


def _name_versions(scans: Sequence[LogFindings], told: Sequence[Diagnosis]) -> tuple[Diagnosis, ...]:
    """Add the printed versions of the packages in question, and leave out commands that only ask for them."""
    installed = _choose_versions(scans)
    return tuple(
        replace(
            one,
            commands=installed_versions.select_commands(one.commands, installed),
            installed=tuple(installed_versions.list_named_versions(one.commands, installed)),
        )
        for one in told
    )


def _judge_verdict(scans: Sequence[LogFindings], ends: Sequence[ProcessEnd]) -> Verdict:
    hows = {end.how for end in ends}
    if hows.intersection(BROKEN):
        return "failed"
    if any(scan.diverged for scan in scans):
        return "failed"
    if not ends or any(has_alarm(scan) for scan in scans):
        return "unknown"
    if _have_finished(ends):
        return "finished"
    marks = [scan.progress for scan in scans]
    return "running" if any(one.last or one.end or one.served for one in marks) else "unknown"


def _is_without_failure(scans: Sequence[LogFindings], told: Sequence[Diagnosis]) -> bool:
    """Whether a program is at work and no line reports a failure; of warnings, it reports a success after them."""
    if any(scan.raised or has_trouble(scan) for scan in scans) or not any(map(has_work, scans)):
        return False
    return all(
        one.kind == "warning" and (scan.hits[one.name].is_overcome or has_success(scan, scan.hits[one.name].last))
        for one in told
        for scan in scans
        if one.name in scan.hits
    )


def _have_finished(ends: Sequence[ProcessEnd]) -> bool:
    """Whether all processes ended regularly: of several ranks, often only the first says so; the others are as far."""
    steps = {end.step for end in ends if end.how == "finished"}
    return bool(steps) and all(end.how == "finished" or end.step in (None, *steps) for end in ends)


def _diagnose_scans(scans: Sequence[LogFindings], ends: Sequence[ProcessEnd]) -> tuple[Diagnosis, ...]:
    """Return the diagnoses; an exception that no entry knows is one, and comes before what it brought about."""
    installed = _choose_versions(scans)
    told = causality.order_diagnoses(scans, load_index().entries, installed)
    first = find_first_failure(ends)
    end = first.end if first else None
    scan = next((one for one in scans if end and one.name == end.log), None)
    if end is None or scan is None:
        return told
    if end.how == "exception" and (raised := _find_unknown_exception(scan, end, told, installed)):
        inner = find_innermost(raised, scan.raised)
        bug = find_bug(inner.text, inner.frames, inner.sources, installed)
        made = (None if bug else _explain_text(inner)) or explain_exception(inner, installed, bug)
        if made.name == UNKNOWN and any(_is_of_shell(one) and _leads_to(one, raised) for one in told):
            return _move_to_front(told, end)
        if inner.text != raised.text and inner.line == raised.line:
            made = replace(made, evidence=(replace(made.evidence[0], text=raised.text),))
        return _put_after_kill(made, told) or _put_first(made, told)
    return _move_to_front(told, end)


def _promote_divergence(scans: Sequence[LogFindings], told: tuple[Diagnosis, ...]) -> tuple[Diagnosis, ...]:
    """Return the diagnoses, with a loss that is no number to the end as the cause if no other one is known."""
    found = next((one for one in told if one.name == DIVERGED and any(scan.diverged for scan in scans)), None)
    if found is None or any(one.kind == "cause" for one in told):
        return told
    return _put_first(replace(found, kind="cause"), [one for one in told if one is not found])


def _drop_ended_waits(scans: Sequence[LogFindings], told: tuple[Diagnosis, ...]) -> tuple[Diagnosis, ...]:
    """Leave out what a log waited for if a line after it says that it came, or the training went on."""
    waits = {
        name
        for scan in scans
        for name, hit in scan.hits.items()
        if not has_success(scan, hit.last) and hit.last > _find_last_mark(scan)
    }
    return tuple(one for one in told if one.kind != "warning" or not _is_wait(one.name) or one.name in waits)


def _is_wait(name: str) -> bool:
    entry = load_index().entries.get(name)
    return entry is not None and (entry.warned in ("waiting", "before_steps") or entry.peer == "waits")


def _find_last_mark(scan: LogFindings) -> int:
    """Return the last line of a step or of a regular end; 0 for none."""
    last = scan.progress.last
    return max(last.number if last else 0, scan.progress.end)


def _add_last_resort(scans: Sequence[LogFindings], told: tuple[Diagnosis, ...]) -> tuple[Diagnosis, ...]:
    """Return the diagnoses; if none may be a cause, first what the log waits for at its end, or a quoted line.

    A line is quoted of what a program around the training refused or missed.
    """
    if any(one.kind in LOUD for one in told):
        return told
    hits = ((name, hit, scan.read - LAST_LINES) for scan in scans for name, hit in scan.hits.items())
    ends = {name for name, hit, begin in hits if hit.last > begin and not hit.is_overcome}
    if last := _find_warning(told, ends, "waiting", "last_line"):
        return (replace(last, kind="symptom"), *(one for one in told if one is not last))
    quoted = _quote_refusal(scans)
    if quoted is None and (broken := _find_warning(told, load_index().entries, "setup")):
        return _put_first(replace(broken, kind="cause"), [one for one in told if one is not broken])
    return _put_first(quoted, told) if quoted else told


def _find_warning(told: Sequence[Diagnosis], names: Collection[str], *meanings: WarningMeaning) -> Diagnosis | None:
    """Return the first diagnosis of these names whose warnings mean one of these."""
    entries = load_index().entries
    return next(
        (one for one in told if one.name in names and one.name in entries and entries[one.name].warned in meanings),
        None,
    )


def _quote_refusal(scans: Sequence[LogFindings]) -> Diagnosis | None:
    """Return the diagnosis of a line that no entry knows and in which a program names what it refused or missed."""
    odd = [
        line
        for scan in scans
        for line in sorted(scan.odd, key=lambda line: line.line)
        if scan.may_end_training(line.line)
    ]
    entries = {entry.name: entry for entry in catalogue.load_component_messages()}
    formats = [(name, entry.match, entry.unless) for name, entry in entries.items()]
    chosen = choose_message([line.text for line in odd], formats, EVENTS)
    return causality.make_diagnosis(entries[chosen.name], chosen.values, (odd[chosen.at],), 1) if chosen else None


def _explain_text(raised: RaisedException) -> Diagnosis | None:
    """Return the diagnosis of an entry that knows the exception's text, where its line was not read as one of its own.

    That is so where the line has a mark before it, or where the message goes on in the next lines.  The frames are the
    lines around it.
    """
    around = "\n".join((*raised.frames, *raised.sources, *_print_frames(raised), raised.text))
    for text in (raised.text, f"{raised.text} {raised.details}"):
        for entry, groups in load_index().match_line(text, lambda: around):
            if entry.kind == "cause" and entry.name not in REPEATING:
                seen = Evidence(raised.file, raised.end or raised.line, raised.text, raised.time)
                return causality.make_diagnosis(entry, groups, (seen,), 1)
    return None


def _print_frames(raised: RaisedException) -> Iterator[str]:
    """Yield the frames as the lines of a traceback."""
    for frame, source in zip(raised.frames, raised.sources, strict=True):
        place, _unused, function = frame.partition(", in ")
        path, _unused, number = place.rpartition(":")
        yield from (f'  File "{path}", line {number}, in {function}', f"    {source}")


def _find_unknown_exception(
    scan: LogFindings, end: ProcessEnd, told: Sequence[Diagnosis], installed: Mapping[str, str]
) -> RaisedException | None:
    """Return the exception that ended the process, unless an entry knows it or what led to it."""
    known = process_ends.list_known_lines(scan, load_index().entries)
    shared = len({one.rank for one in scan.raised} - {None}) > 1
    raised = process_ends.find_own_exception(scan, end.rank if shared else None, end.unit)
    if raised is None or (raised.is_cut and any(one.kind in LOUD for one in told)):
        return None
    inner = find_innermost(raised, scan.raised)
    if find_bug(inner.text, inner.frames, inner.sources, installed):
        return raised
    entry = process_ends.find_entry_of(raised, known)
    if entry is not None:
        if repeats_exception(entry, raised, installed):
            return raised
        return _find_wrapped_exception(scan, raised, entry, installed)
    far = 0 if is_general(raised.text) else raised.line - NEAR_LINES
    has_report = is_only_code(raised.text) or begins_report(raised.text)
    causes = {one.name for one in told if one.kind == "cause" or (has_report and one.kind == "symptom")}
    after = LOAD_LINES if lists_loads(raised.text) else REPORT_LINES if has_report else 0
    last = raised.end + after if raised.frames else scan.read  # without frames it may not be the end
    led = [
        one
        for one in known
        if one.entry.name in causes and far <= one.line.line <= last and not _SHELL_LINE.search(one.line.text)
    ]
    if led and all(one.entry.name in REPEATING for one in led):
        return _find_wrapped_exception(scan, raised, led[0].entry, installed)
    return None if led else raised


def _find_wrapped_exception(
    scan: LogFindings, raised: RaisedException, entry: CatalogueEntry, installed: Mapping[str, str]
) -> RaisedException | None:
    """Return the exception before it in the same chain whose form says more than the entry that knows its line."""
    earlier = [
        one for one in scan.raised if one.rank == raised.rank and raised.line - CHAIN_LINES <= one.end < raised.line
    ]
    if entry.name not in REPEATING:
        return None
    return next((one for one in earlier if repeats_exception(entry, one, installed)), None)


def _put_first(made: Diagnosis, told: Sequence[Diagnosis]) -> tuple[Diagnosis, ...]:
    own = {(line.file, line.line) for line in made.evidence}
    rest = [
        one
        for one in told
        if one.name not in REPEATING and one.name != made.name and not own.issuperset(_list_places(one))
    ]
    linked = [replace(one, caused_by=made.name) if _may_follow(one, made) else one for one in rest]
    return (made, *(replace(one, kind="warning") if _is_of_shell(one) else one for one in linked))


def _is_of_shell(one: Diagnosis) -> bool:
    """Return whether it is a cause that only a script reports, which went on to start the program that failed."""
    return one.kind == "cause" and not one.caused_by and all(_SHELL_LINE.search(line.text) for line in one.evidence)


def _leads_to(one: Diagnosis, raised: RaisedException) -> bool:
    """Return whether its lines are shortly before the exception: what did not start left nothing for this program."""
    first = raised.line - SHELL_LINES
    return all(line.file == raised.file and first <= line.line < raised.line for line in one.evidence)


def _may_follow(one: Diagnosis, made: Diagnosis) -> bool:
    """Return whether it may be a consequence of the exception: all of it is what the same process wrote later, or saw.

    What the runtime of the cards reports while the interpreter exits is no cause of the exception before it, unless
    this one only passes on what comes from below.
    """
    first = made.evidence[0]
    rank = find_prefix_rank(first.text)
    return one.kind in ("symptom", "summary") or (
        one.kind == "cause"
        and not one.caused_by
        and not is_general(first.text)
        and all(
            line.file == first.file and line.line > first.line and find_prefix_rank(line.text) == rank
            for line in one.evidence
        )
    )


def _put_after_kill(made: Diagnosis, told: Sequence[Diagnosis]) -> tuple[Diagnosis, ...]:
    """Return the diagnoses with an exception about the end of another process behind the line before it that another
    one was killed; () where there is no such line.
    """
    seen = made.evidence[0]
    kill = next((one for one in told if load_index().entries[one.name].codes == causality.KILL), None)
    if made.kind != "symptom" or kill is None or told[0] is not kill:
        return ()
    line = kill.evidence[0]
    if line.file != seen.file or line.line > seen.line:
        return ()
    return (kill, replace(made, caused_by=kill.name), *told[1:])


def _list_places(one: Diagnosis) -> set[tuple[str, int]]:
    return {(line.file, line.line) for line in one.evidence}


def _move_to_front(told: tuple[Diagnosis, ...], end: ProcessEnd) -> tuple[Diagnosis, ...]:
    """Put the diagnosis of the process that failed first before those of others."""
    if end.how not in FAILED:
        return told
    mine = [one for one in told if one.kind == "cause" and not one.caused_by and _is_of_log(one, end.log)]
    if not mine:
        return _put_end_first(told, end)
    if mine[0] is told[0] or (told[0].kind == "cause" and _is_of_log(told[0], end.log)):
        return told
    return (mine[0], *(one for one in told if one is not mine[0]))


def _put_end_first(told: tuple[Diagnosis, ...], end: ProcessEnd) -> tuple[Diagnosis, ...]:
    """Put the diagnosis of the line by which the process ended first; what other processes saw of it follows."""
    mine = next((one for one in told if one.kind in LOUD and any(_is_end(line, end) for line in one.evidence)), None)
    if mine is None and end.how == "signal" and not end.line:
        made = explain_codes([end.reason])
        mine = next((one for one in told for same in made if one.name == same.name), next(iter(made), None))
    if mine is None or any(one.kind == "cause" for one in told):
        return told
    rest = [one for one in told if one is not mine]
    linked = [replace(one, caused_by=mine.name) if one.kind in ("symptom", "summary") else one for one in rest]
    return (replace(mine, caused_by=""), *linked)


def _is_end(line: Evidence, end: ProcessEnd) -> bool:
    if not end.line:  # only its launcher tells it
        return bool(end.reason) and end.reason in line.text
    return (line.file, line.line) == (end.log, end.line)


def _is_of_log(one: Diagnosis, log: str) -> bool:
    return any(line.file == log for line in one.evidence)


def _find_first_failed(
    told: Sequence[Diagnosis],
    raised: RaisedException | None,
    first: FirstFailedProcess | None,
    ends: Sequence[ProcessEnd],
) -> str:
    if first and first.end:
        return first.end.log
    if not any(end.how in FAILED for end in ends) and any(end.how in ("waited", "stopped") for end in ends):
        return ""  # all of them only saw that another one was missing
    loud = [diagnosis for diagnosis in told if diagnosis.kind in LOUD]
    return loud[0].evidence[0].file if loud else raised.file if raised else ""


def _choose_exception(
    scans: Sequence[LogFindings], told: Sequence[Diagnosis], ends: Sequence[ProcessEnd]
) -> RaisedException | None:
    """The exception of the first diagnosis; otherwise the last one of the process that failed first."""
    ended = [one for scan in scans for one in scan.raised if scan.may_end_training(max(one.line, one.end))]
    loud = next((one.evidence[0] for one in told if one.kind in LOUD), None)
    if loud:
        mine = [one for one in ended if one.file == loud.file and one.text in loud.text]
        if mine:
            return next((one for one in mine if loud.line == one.end), mine[0])
    first = find_first_failure(ends)
    logs = [first.end.log] if first and first.end else [loud.file] if loud else [scan.name for scan in scans]
    for scan in scans:
        if scan.name in logs and (raised := process_ends.find_own_exception(scan)):
            return raised
    return next((one for one in reversed(ended) if one.file in logs), None)
