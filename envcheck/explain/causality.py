"""Turn the hits of several logs into diagnoses: causes before consequences, the earliest first; pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from envcheck.core.language import translate
from envcheck.core.messages import _
from envcheck.explain import codes, timestamps
from envcheck.explain.diagnosis import KINDS, CatalogueEntry, Diagnosis, Evidence
from envcheck.explain.exceptions import (
    api_changes,
    installed_versions,
    raised_place,
    requirement_conflict,
    torch_releases,
)
from envcheck.explain.log_findings import LogFindings
from envcheck.explain.log_level import is_mild

SHOWN = 3
EXIT = "exit"  # area of the entries that report how a process ended
KILL = ("SIGKILL",)  # codes of the entry of a kill
_KILL_NUMBER = re.compile(r"(?:code|status|signal|exited)\W{1,4}(?:-9|9|137|247)\b|\bSIGKILL\b", re.IGNORECASE)
# Pages of Python's manual that only say what an exception or a statement is: they are sources, but no help.
MANUAL = tuple(
    f"https://docs.python.org/3/{part}"
    for part in ("library/exceptions.html", "tutorial/", "reference/simple_stmts.html", "library/functions.html")
)
ADVICE = "{advice}."
LONGEST = 400  # characters of a value from a log line, in our text
_INSTALLED_VALUES = ("requirement", "upgrade", "newest", "pair", "kept", "rebuild")  # of commands that install
# A number that has to be a multiple of another one: alone, or before the words that say so; but not of data.
_DIVIDED = re.compile(r"^(\d{1,6})$|(\d{1,6})\)?\D{0,3} (?:must|should|needs? to|is not|are not|can(?:not|.t)) ")
_OF_DATA = re.compile(r"length|sequence|batch|token", re.IGNORECASE)
MOST_RANKS = 128  # a larger degree of parallelism is not offered
_PLACE = re.compile(r"\{(\w{1,20})\}")
# Values that are allowed in a command to be pasted: a log may come from a stranger.
_HARMLESS = re.compile(r"[\w./:+@=,][\w./:+@=,-]{0,119}")
_HARMLESS_QUOTED = re.compile(r"[\w./:+@=,][\w./:+@=,<>!~ \[\]-]{0,119}")  # between single quotes in the command


@dataclass(frozen=True)
class _RankedDiagnosis:
    diagnosis: Diagnosis
    entry: CatalogueEntry
    key: tuple[float, int, int]


def order_diagnoses(
    scans: Sequence[LogFindings], entries: Mapping[str, CatalogueEntry], installed: Mapping[str, str]
) -> tuple[Diagnosis, ...]:
    """Return the diagnoses of the logs in the order in which they are shown; `installed` are the printed versions."""
    places = {scan.name: at for at, scan in enumerate(scans)}
    firsts = [seen.time for scan in scans for hit in scan.hits.values() for seen in hit.first_lines[:1]]
    timed = timestamps.are_comparable(firsts)
    found = [_rank_entry(entries[name], scans, places, timed, installed) for name in _list_entry_names(scans)]
    ordered = _put_earlier_kills_first(_sort_causes_first(_restore_warned_causes(found)))
    return _leave_out_repeated(_link_consequences(ordered))


def _list_entry_names(scans: Iterable[LogFindings]) -> list[str]:
    return list(dict.fromkeys(name for scan in scans for name in scan.hits))


def _rank_entry(
    entry: CatalogueEntry,
    scans: Sequence[LogFindings],
    places: Mapping[str, int],
    timed: bool,
    installed: Mapping[str, str],
) -> _RankedDiagnosis:
    hits = [scan.hits[entry.name] for scan in scans if entry.name in scan.hits]
    seen = [line for scan in scans if entry.name in scan.hits for line in _list_lines(scan, entry.name)]

    def when(line: Evidence) -> tuple[float, int, int]:
        return (line.time if timed and line.time is not None else 0.0, places[line.file], line.line)

    seen.sort(key=when)
    logs = {scan.name: scan for scan in scans}
    seen.sort(key=lambda line: not logs[line.file].may_end_training(line.line))  # what did not end it comes last
    groups = next((hit.groups for hit in hits if seen[0] in hit.first_lines), {})
    ended = [
        scan
        for scan in scans
        if entry.name in scan.hits and scan.may_entry_end_training(entry, scan.hits[entry.name].last)
    ]
    mild = entry.kind in ("cause", "symptom") and all(_is_mild_at_end(scan, entry) for scan in ended)
    made = make_diagnosis(entry, groups, tuple(seen[:SHOWN]), sum(hit.count for hit in hits), installed)
    return _RankedDiagnosis(replace(made, kind="warning") if mild else made, entry, when(seen[0]))


def _is_mild_at_end(scan: LogFindings, entry: CatalogueEntry) -> bool:
    """Return whether each line of the entry that may have ended the training is only a warning."""
    hit = scan.hits[entry.name]
    last = scan.make_evidence(hit.last, hit.last_line)
    ended = (line for line in (*hit.first_lines, last) if scan.may_entry_end_training(entry, line.line))
    return hit.mild or all(is_mild(line.text) for line in ended)


def _list_lines(scan: LogFindings, name: str) -> list[Evidence]:
    """The first lines of an entry, and its last one if none of them may have ended the training."""
    hit = scan.hits[name]
    lines = hit.first_lines
    ends = scan.may_end_training
    if ends(hit.last) and not any(ends(line.line) for line in lines) and hit.last_line:
        return [*lines, scan.make_evidence(hit.last, hit.last_line)]
    return lines


def make_diagnosis(
    entry: CatalogueEntry,
    groups: Mapping[str, str],
    seen: tuple[Evidence, ...],
    count: int,
    installed: Mapping[str, str] | None = None,
) -> Diagnosis:
    """Return the entry's texts with the values from the log line; commands only get harmless values."""
    named = dict(groups)
    if "number" in named and (name := codes.name_result(entry.area, named["number"])):
        named["code"] = name
    if code := codes.explain_code(codes.label_code(entry.name, named["code"]), entry.area) if "code" in named else None:
        bare = code.code.removeprefix("Xid ")  # the entry's text has the prefix
        named |= {"code": bare, "meaning": code.meaning, "codename": code.name or bare, "advice": code.advice}

    if "module" in named:
        named.setdefault("pip", raised_place.name_pip_package(named["module"]))
    if wanted := _count_wanted_ranks(named):
        named["wanted"] = wanted
    if divisors := _list_divisors(named.get("found") or named.get("what", "")):
        named["divisors"] = divisors
    if conflict := requirement_conflict.describe_conflict(named.get("requirements", "")):
        named["conflict"] = conflict
    if "package" in named and (releases := torch_releases.describe_torch_releases(named["package"])):
        named["releases"] = releases
    if "package" in named:
        named = torch_releases.describe_pair(named["package"], installed or {}) | named
    if entry.partners:
        named = torch_releases.describe_partner(entry.partners, installed or {}) | named
    if needed := api_changes.find_model_requirement(named.get("model", ""), installed or {}):
        named |= _describe_model_release(needed, installed or {})

    def fill_argument(found: re.Match[str]) -> str:
        quoted = found.string[: found.start()].endswith("'") and found.string[found.end() :].startswith("'")
        value = named.get(found[1], "")
        return value if (_HARMLESS_QUOTED if quoted else _HARMLESS).fullmatch(value) else found[1].upper()

    def command(text: str) -> str:
        return _PLACE.sub(fill_argument, text)

    return Diagnosis(
        name=entry.name,
        kind=entry.kind,
        description=fill_placeholders(entry.says, named),
        why=fill_placeholders(entry.why, named),
        do=fill_placeholders(entry.do, named),
        commands=tuple(command(text) for text in entry.commands if _is_complete(text, named)),
        source=_select_pages(entry),
        applies_to=entry.applies,
        evidence=seen,
        count=count,
        named=tuple((name, said) for name, said in named.items() if said),
    )


def _describe_model_release(requirement: str, installed: Mapping[str, str]) -> dict[str, str]:
    """Return the release that knows the model, or the printed one if it does: another one raised the exception."""
    package = requirement.partition(">")[0]
    has_model = installed_versions.check_requirement(requirement, installed)
    return {"partner": f"{package} {installed[package]}"} if has_model else {"requirement": requirement}


def _select_pages(entry: CatalogueEntry) -> tuple[str, ...]:
    """Return the pages that help: none for an entry of many messages, of which each has its own advice in a table."""
    return () if entry.do == ADVICE else tuple(page for page in entry.source if not page.startswith(MANUAL))


def _count_wanted_ranks(named: Mapping[str, str]) -> str:
    """Return the number of data parallel ranks that the batch sizes of DeepSpeed are for; "" if it is no whole one."""
    if not named.keys() >= {"batch", "micro", "steps"}:
        return ""
    batch, of_rank = int(named["batch"]), int(named["micro"]) * int(named["steps"])
    return str(batch // of_rank) if of_rank and batch and batch % of_rank == 0 else ""


def _list_divisors(text: str) -> str:
    """Return the numbers that divide what has to be divided, 28 of `heads (28) must be divisible by size (8)`."""
    found = None if _OF_DATA.search(text) else _DIVIDED.search(text)
    number = int(found[1] or found[2]) if found else 0
    return ", ".join(str(one) for one in range(1, min(number, MOST_RANKS) + 1) if number % one == 0)


def _is_complete(command: str, named: Mapping[str, str]) -> bool:
    """Return whether the command can be shown: one that installs something has to know what."""
    return all(f"{{{name}}}" not in command or name in named for name in _INSTALLED_VALUES)


def fill_placeholders(text: str, named: Mapping[str, str]) -> str:
    """Return an entry's text with its placeholders replaced by values from the log line.

    A value that the line does not have is left out where the text is complete without it: ` (step {step})`, and
    `: {path}` or `: rank {rank}` at the end of a clause.  Elsewhere general words replace it.
    """
    kept = _OPTIONAL.sub(lambda found: _keep_named(found, named), text)
    return _WORD_AND_PLACE.sub(lambda found: _fill_placeholder(found, named), kept).strip()


# The parts of a text that need a value, in English and in Chinese.
_OPTIONAL = re.compile(
    r"(?P<aside> ?[(（][^()（）]{0,80}\{[^()（）]{0,200}[)）])"
    r"|(?P<colon>(?:: |：)(?:rank )?)(?P<values>\{\w{1,20}\}(?:(?:, | |，|、)\{\w{1,20}\})*)(?=$|[.;。；)）]| ?[(（])"
)
_WORD_AND_PLACE = re.compile(r"(?P<ahead>\w{1,60} ?)?\{(?P<name>\w{1,20})\}")
_ARTICLE = re.compile(r"(?:the|its|an?|no) |[该此其]", re.IGNORECASE)


def _keep_named(found: re.Match[str], named: Mapping[str, str]) -> str:
    """Return the part with those of its placeholders that have a value; "" if none has one."""
    given = [name for name in _PLACE.findall(found[0]) if named.get(name)]
    if found["aside"]:
        return found[0] if given else ""
    between = next(iter(re.findall(r"\}(\W{1,2})\{", found["values"])), "")
    return found["colon"] + between.join(f"{{{name}}}" for name in given) if given else ""


# Text in place of a value that the line does not have.
_UNNAMED = {
    "address": _("the address in the line"),
    "advice": "",
    "asked": _("more memory"),
    "backend": _("the backend"),
    "code": _("a code"),
    "caller": _("the calling code"),
    "codename": "",
    "device": _("the device"),
    "component": _("a program"),
    "end": _("a later version"),
    "function": _("the function"),
    "fits": "FITS",
    "free": _("too little"),
    "format": _("text"),
    "held": "",
    "hint": "",
    "host": _("the host"),
    "image": _("the image"),
    "job": _("the job"),
    "key": _("the key"),
    "kernel": _("the kernel"),
    "kind": _("the object"),
    "library": _("the library"),
    "limit": _("its limit"),
    "meaning": _("see the adjacent text"),
    "message": _("see the line"),
    "model": _("the model"),
    "module": _("the module"),
    "name": _("the name"),
    "op": _("the operator"),
    "option": _("the option"),
    "package": _("the package"),
    "part": _("the part"),
    "names": _("what the message names"),
    "namespace": _("the namespace"),
    "owner": _("the object"),
    "path": _("the path"),
    "pip": _("the package"),
    "peer": _("the peer"),
    "pid": _("see the line"),
    "port": _("the port"),
    "pod": _("the pod"),
    "place": _("the last frame of the traceback"),
    "rank": _("see the line"),
    "reason": _("see the line"),
    "program": _("the program"),
    "registry": _("the registry"),
    "remedy": _("see the line"),
    "requirement": _("the release that the model's page names"),
    "resource": _("the resource"),
    "size": _("many"),
    "source": _("see the traceback"),
    "step": _("see the line"),
    "symbol": _("the symbol"),
    "target": _("the target"),
    "text": _("the text"),
    "type": _("an exception"),
    "types": _("the types"),
    "url": _("the address in the line"),
    "value": _("see the line"),
    "version": _("the version"),
    "what": _("the reason in the line"),
}


def _fill_placeholder(found: re.Match[str], named: Mapping[str, str]) -> str:
    """Return the value, or general words: not twice the same ("the registry the registry"), and with one article."""
    ahead, name = found["ahead"] or "", found["name"]
    if value := named.get(name):
        return ahead + _shorten(value)
    general = _UNNAMED.get(name, name)
    words = translate(general) if general else ""
    article = _ARTICLE.match(words)
    noun = words[article.end() :] if article else words
    if noun and re.search(rf"(?<![a-z]){re.escape(noun)} ?$", ahead, re.IGNORECASE):
        return ahead.rstrip()
    return ahead + (noun if _ARTICLE.fullmatch(ahead) else words)


def _shorten(value: str) -> str:
    """Return the value; of a long one its beginning, with no part of a word."""
    if len(value) <= LONGEST:
        return value
    return value[:LONGEST].rpartition(" ")[0].rstrip(",") + " ..." if " " in value[:LONGEST] else value[:LONGEST]


def _restore_warned_causes(found: list[_RankedDiagnosis]) -> list[_RankedDiagnosis]:
    """A cause whose lines call themselves warnings is a cause after all if a failure of the log follows from it."""
    failures = [one for one in found if one.diagnosis.kind != "warning"]
    restored = [
        replace(one, diagnosis=replace(one.diagnosis, kind=one.entry.kind))
        if one.entry.kind == "cause" and any(_can_follow(failure.entry, one.entry) for failure in failures)
        else one
        for one in found
    ]
    return sorted(restored, key=lambda one: (KINDS.index(one.diagnosis.kind), one.key))


def _sort_causes_first(found: list[_RankedDiagnosis]) -> list[_RankedDiagnosis]:
    """Among possible causes: what brings about another one comes before it, whatever the timestamps."""
    ordered: list[_RankedDiagnosis] = []
    waiting = list(found)
    while waiting:
        free = next((one for one in waiting if not _is_consequence(one, waiting)), waiting[0])
        waiting.remove(free)
        ordered.append(free)
    return ordered


def _put_earlier_kills_first(ordered: list[_RankedDiagnosis]) -> list[_RankedDiagnosis]:
    """Put a kill before the errors that all came later in its log: it is the consequence of none of them."""
    kills = [one for one in ordered if one.diagnosis.kind != "warning" and _is_reported_kill(one)]
    errors = [one for one in ordered if one.diagnosis.kind in ("cause", "symptom") and one not in kills]
    first = [one for one in kills if errors and all(_is_before(one, error) for error in errors)]
    causes = [replace(one, diagnosis=replace(one.diagnosis, kind="cause")) for one in first]
    return [*causes, *(one for one in ordered if one not in first)]


def _is_reported_kill(one: _RankedDiagnosis) -> bool:
    """Return whether a launcher reports the kill, with its number: a shell's word may be about any process."""
    return one.entry.codes == KILL and bool(_KILL_NUMBER.search(one.diagnosis.evidence[0].text))


def _is_before(one: _RankedDiagnosis, other: _RankedDiagnosis) -> bool:
    """Return whether one line of the first is before all lines of the other, in the only log of both."""
    mine, others = one.diagnosis.evidence, other.diagnosis.evidence
    if len({line.file for line in (*mine, *others)}) != 1:
        return False
    return min(line.line for line in mine) < min(line.line for line in others)


def _is_consequence(one: _RankedDiagnosis, others: Iterable[_RankedDiagnosis]) -> bool:
    if one.diagnosis.kind == "warning":
        return False
    return any(
        other is not one
        and other.diagnosis.kind != "warning"
        and _can_follow(one.entry, other.entry)
        and _may_be_linked(one, other)
        for other in others
    )


def _can_follow(entry: CatalogueEntry, other: CatalogueEntry) -> bool:
    return other.name in entry.follows or other.area in entry.follows


def _may_be_linked(one: _RankedDiagnosis, other: _RankedDiagnosis) -> bool:
    """Return whether no line of the two is known to be about another pod than those of the other.

    What a process sees of its peers is about another pod.
    """
    if one.entry.peer:
        return True
    mine, others = ({line.about for line in of.diagnosis.evidence} - {""} for of in (one, other))
    return not mine or not others or bool(mine & others)


def _link_consequences(ordered: list[_RankedDiagnosis]) -> tuple[Diagnosis, ...]:
    """Link each diagnosis with the earlier one of which it is, or may be, a consequence."""
    told: list[Diagnosis] = []
    for at, one in enumerate(ordered):
        before = [o for o in ordered[:at] if o.diagnosis.kind != "warning" and _may_be_linked(one, o)]
        causes = [o.entry.name for o in before if _can_follow(one.entry, o.entry)]
        cause = next((name for name in (*one.entry.follows, *causes) if name in causes), "")
        if not cause and one.diagnosis.kind in ("symptom", "summary"):
            is_end = one.entry.area == EXIT or one.entry.codes == KILL
            earlier = [o for o in before if not (is_end and _is_before(one, o))]
            cause = next((o.entry.name for o in earlier if o.diagnosis.kind in ("cause", "symptom")), "")
        told.append(replace(one.diagnosis, caused_by=cause))
    return tuple(told)


def _leave_out_repeated(told: tuple[Diagnosis, ...]) -> tuple[Diagnosis, ...]:
    """Leave out a consequence without a line of its own: its cause explains these lines, and what it caused itself."""
    lines = {one.name: {(line.file, line.line) for line in one.evidence} for one in told}
    counts = {one.name: one.count for one in told}
    left_out = {
        one.name: one.caused_by
        for one in told
        if one.caused_by and lines[one.name] <= lines[one.caused_by] and counts[one.name] <= counts[one.caused_by]
    }
    kept = (one for one in told if one.name not in left_out)
    return tuple(replace(one, caused_by=_find_kept_cause(one.caused_by, left_out)) for one in kept)


def _find_kept_cause(cause: str, left_out: Mapping[str, str]) -> str:
    """Return the cause, or what caused it where it is left out."""
    while cause in left_out:
        cause = left_out[cause]
    return cause
