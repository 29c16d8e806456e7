"""Hits of several logs as diagnoses: causes before what follows from them, the earliest first; pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from envcheck.explain import codes, times
from envcheck.explain.found import Found
from envcheck.explain.model import KINDS, Diagnosis, Entry, Evidence

SHOWN = 3
LONGEST = 160  # characters of what a line named, in our words
_PLACE = re.compile(r"\{(\w{1,20})\}")
# What may stand in a command that is to be pasted: a log may come from a stranger.
_HARMLESS = re.compile(r"[\w./:+@=,][\w./:+@=,-]{0,119}")


@dataclass(frozen=True)
class _Found:
    diagnosis: Diagnosis
    entry: Entry
    key: tuple[float, int, int]


def diagnoses(scans: Sequence[Found], entries: Mapping[str, Entry]) -> tuple[Diagnosis, ...]:
    """What the logs say, in the order in which it is told."""
    places = {scan.name: at for at, scan in enumerate(scans)}
    firsts = [seen.time for scan in scans for hit in scan.hits.values() for seen in hit.first[:1]]
    timed = times.comparable(firsts)
    found = [_found(entries[name], scans, places, timed) for name in _names(scans)]
    found.sort(key=lambda one: (KINDS.index(one.diagnosis.kind), one.key))
    return _related(_causes_first(found))


def _names(scans: Iterable[Found]) -> list[str]:
    return list(dict.fromkeys(name for scan in scans for name in scan.hits))


def _found(entry: Entry, scans: Sequence[Found], places: Mapping[str, int], timed: bool) -> _Found:
    hits = [scan.hits[entry.name] for scan in scans if entry.name in scan.hits]
    seen = [line for hit in hits for line in hit.first]

    def when(line: Evidence) -> tuple[float, int, int]:
        return (line.time if timed and line.time is not None else 0.0, places[line.file], line.line)

    seen.sort(key=when)
    groups = next((hit.groups for hit in hits if seen[0] in hit.first), {})
    ended = [scan for scan in scans if entry.name in scan.hits and scan.hits[entry.name].last >= scan.trains]
    mild = entry.kind in ("cause", "symptom") and all(scan.hits[entry.name].mild for scan in ended)
    made = made_of(entry, groups, tuple(seen[:SHOWN]), sum(hit.count for hit in hits))
    return _Found(replace(made, kind="warning") if mild else made, entry, when(seen[0]))


def made_of(entry: Entry, groups: Mapping[str, str], seen: tuple[Evidence, ...], count: int) -> Diagnosis:
    """With what the line named put into the words, and into the commands where it is harmless there."""
    named = dict(groups)
    if entry.area == "hccl" and "number" in named:
        named["code"] = codes.hccl_result(named["number"])
    if "code" in named and (code := codes.read(named["code"])):
        bare = code.code.removeprefix("Xid ")  # which the entry says itself
        named |= {"code": bare, "meaning": code.meaning, "codename": code.name or bare}

    def command(text: str) -> str:
        return _PLACE.sub(lambda m: said if _HARMLESS.fullmatch(said := named.get(m[1], "")) else m[1].upper(), text)

    return Diagnosis(
        name=entry.name,
        kind=entry.kind,
        says=words(entry.says, named),
        why=words(entry.why, named),
        do=words(entry.do, named),
        commands=tuple(map(command, entry.commands)),
        source=entry.source,
        applies=entry.applies,
        evidence=seen,
        count=count,
        named=tuple((name, said) for name, said in named.items() if said),
    )


def words(text: str, named: Mapping[str, str]) -> str:
    """An entry's text with what the line named in its places."""
    return _WORDS.sub(lambda m: _put(m, named), text)


# With what would stand oddly where the line did not say it: `: {path}`, ` ({module})`.
_WORDS = re.compile(r"(?P<ahead>: | \()?\{(?P<name>\w{1,20})\}(?P<close>\))?")
_UNSAID = {"code": "a code", "meaning": "the text beside it says what", "package": "the package"}


def _put(found: re.Match[str], named: Mapping[str, str]) -> str:
    ahead, name, close = found["ahead"] or "", found["name"], found["close"] or ""
    if said := named.get(name):
        return f"{ahead}{said[:LONGEST]}{close}"
    if ahead and (ahead == " (") == bool(close):
        return ""
    return f"{ahead}{_UNSAID.get(name, f'the {name}')}{close}"


def _causes_first(found: list[_Found]) -> list[_Found]:
    """Within what may be a cause: what brings another one about stands before it, whatever the clock says."""
    ordered: list[_Found] = []
    waiting = list(found)
    while waiting:
        free = next((one for one in waiting if not _brought_about(one, waiting)), waiting[0])
        waiting.remove(free)
        ordered.append(free)
    return ordered


def _brought_about(one: _Found, others: Iterable[_Found]) -> bool:
    if one.diagnosis.kind == "warning":
        return False
    return any(
        other is not one and other.diagnosis.kind != "warning" and _follows(one.entry, other.entry) for other in others
    )


def _follows(entry: Entry, other: Entry) -> bool:
    return other.name in entry.follows or other.area in entry.follows


def _related(ordered: list[_Found]) -> tuple[Diagnosis, ...]:
    """Each with the one before it of which it is, or may be, a consequence."""
    told: list[Diagnosis] = []
    for at, one in enumerate(ordered):
        before = [o for o in ordered[:at] if o.diagnosis.kind != "warning"]
        cause = next((o.entry.name for o in before if _follows(one.entry, o.entry)), "")
        if not cause and one.diagnosis.kind in ("symptom", "summary"):
            cause = next((o.entry.name for o in before if o.diagnosis.kind in ("cause", "symptom")), "")
        told.append(replace(one.diagnosis, follows=cause))
    return tuple(told)
