"""The plan of many hosts, those that differ apart; how each of them ended; the same for programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from envcheck.core import errors
from envcheck.core.errors import outcome
from envcheck.core.host_names import fold_hosts
from envcheck.core.language import label, say
from envcheck.core.language.width import columns
from envcheck.core.version import SCHEMA_VERSION
from envcheck.report.summary import safe
from installers.hosts.parse_plan import Looked

WELL = ("done", "ready", "planned", "removed", "absent")
# The first of these codes that a host has is that of the whole.
WORST = (errors.INTERRUPTED, errors.BUG, errors.STEP_FAILED, errors.UNFIT, errors.USAGE, errors.UNTOLD)


@dataclass(frozen=True)
class HostOutcome:
    """How it stands with a host; `at` is the step that it had begun last, `did` what it says of what was done."""

    host: str
    state: str
    code: int
    seen: str = ""
    at: str = ""
    journal: str = ""
    document: Any = None


def plans(looked: Sequence[Looked]) -> Iterator[str]:
    """The plan that most have, whole; of the others what is otherwise."""
    groups: dict[tuple[str, ...], list[Looked]] = {}
    for one in looked:
        if one.plan is not None:
            groups.setdefault(one.alike, []).append(one)
    ranked = sorted(groups.items(), key=lambda pair: -len(pair[1]))
    for number, (lines, same) in enumerate(ranked):
        where = fold_hosts(one.host for one in same)
        if number == 0:
            own = len({one.plan.folder for one in same if one.plan}) > 1
            yield f"{where}{say(', each in a folder of its own:' if own else ':')}"
            yield from (f"  {line}" for line in same[0].lines())
        else:
            yield f"{where}{say(', otherwise:')}"
            yield from _otherwise(lines, ranked[0][0])


def _otherwise(here: Sequence[str], most: Sequence[str]) -> Iterator[str]:
    yield from (f"  + {line}" for line in here if line not in most)
    yield from (f"  - {line}" for line in most if line not in here)


def ends(found: Sequence[HostOutcome]) -> Iterator[str]:
    """Hosts with the same end in one line."""
    groups: dict[tuple[str, str], list[HostOutcome]] = {}
    for end in found:
        groups.setdefault((end.state, _words(end)), []).append(end)
    for (state, words), same in sorted(groups.items(), key=lambda pair: (pair[0][0] not in WELL, -len(pair[1]))):
        where = fold_hosts(end.host for end in same)
        yield f"{column(state)}{where}{say(': ') + words if words else ''}"
        if state in ("failed", "lost", "interrupted") and same[0].journal:
            yield f"{'':12}{say('journal there: ')}{safe(same[0].journal)}"


def column(state: str, wide: int = 12) -> str:
    """How a host stands, as wide as all others'."""
    said = label(state)
    return said + " " * max(1, wide - columns(said))


def _words(end: HostOutcome) -> str:
    during = say(" (at: {})").format(say(end.at)) if end.at and end.state != "done" else ""
    return safe(f"{say(end.seen)}{during}".strip())


def code(found: Sequence[HostOutcome]) -> int:
    codes = {end.code for end in found}
    return next((one for one in WORST if one in codes), max(codes, default=errors.FIT))


def _first_bad(found: Sequence[HostOutcome]) -> tuple[str, str]:
    bad = next((end for end in found if end.code), None)
    return (f"{bad.host}: {safe(bad.seen) or bad.state}", "") if bad else ("interrupted", "")


def document(found: Sequence[HostOutcome], result: str, exit_code: int) -> dict[str, Any]:
    return {
        "schema": SCHEMA_VERSION,
        "verb": "provision",
        "result": result,
        **outcome(exit_code, *_first_bad(found)),
        "hosts": {
            end.host: {
                "state": end.state,
                "exit_code": end.code,
                "seen": safe(end.seen),
                "at": safe(end.at),
                "journal": safe(end.journal),
                "document": end.document,
            }
            for end in found
        },
    }
