"""The fleet's report: for people (verdict, next step, what is common, the odd ones), and one JSON document."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from envcheck.core.host_names import fold_hosts
from envcheck.core.language import say
from envcheck.core.language.width import columns, wrap
from envcheck.core.model import Finding, Status
from envcheck.core.text import plain
from envcheck.core.version import SCHEMA_VERSION
from envcheck.fleet import majority
from envcheck.fleet.evaluate import Alike, Fleet, alike
from envcheck.report import Style
from envcheck.report.document import finding_object
from envcheck.report.summary import counts, exit_code, next_step, problems, safe, summary, verdict

if TYPE_CHECKING:
    from envcheck.fleet.report.options import FleetReportOptions

# Told in a row each; of packages, variables and interfaces there are too many: those that differ are told.
ROWS = ("fleet.cards", "fleet.driver", "fleet.firmware", "fleet.toolkit", "fleet.architecture", "fleet.os",
        "fleet.kernel", "fleet.numa", "fleet.python", "fleet.ports",
        "fleet.tls", "fleet.rank_table", "fleet.synchronised")  # fmt: skip
COUNTED = {"fleet.packages": "packages", "fleet.mtu": "MTUs", "fleet.image": "images", "fleet.environment": "variables"}
WORDINGS = 3


def render_table(fleet: Fleet, asked: FleetReportOptions) -> str:
    return text(fleet, asked.style)


def render_json(fleet: Fleet, asked: FleetReportOptions) -> str:
    return document(fleet, asked.strict)


def text(fleet: Fleet, style: Style) -> str:
    """Lines no wider than the terminal; without UTF-8 in plain ASCII."""
    wrong, found = alike(fleet.hosts), fleet.findings
    lines = [
        *_wrapped(head(fleet), style, ""),
        "",
        *_wrapped(f"{summary(found)}{_counted(fleet, wrong)}", style, f"{style.mark(verdict(found))} "),
        *_next(fleet, wrong, style),
        "",
        *_common(fleet.votes, style),
        *_section(say("Odd ones"), [_odd(f, style) for f in fleet.wrong]),
        *_section(say("Between the hosts"), [_odd(f, style) for f in fleet.well]),
        *_section(say("Hosts"), [_alike(one, style) for one in wrong]),
    ]
    said = "\n".join(lines).rstrip() + "\n"
    return said if style.unicode else said.replace("×", "x").encode("ascii", "replace").decode()


def document(fleet: Fleet, strict: bool) -> str:
    found = fleet.findings
    told = {
        "schema": SCHEMA_VERSION,
        "verdict": verdict(found).name,
        "exit_code": exit_code(found, strict),
        "next_step": step(fleet, alike(fleet.hosts)).replace("\n", " "),
        "hosts": {
            safe(host.name): {
                "answered": host.answered,
                "verdict": verdict(host.findings).name,
                "named": [safe(f.name) for f in fleet.named.get(host.name, ())],
                "findings": [finding_object(f) for f in host.findings],
            }
            for host in fleet.hosts
        },
        "common": [_vote(v) for v in fleet.votes if v.agreed],
        "odd": [_vote(v) for v in fleet.votes if not v.agreed],
        "findings": [finding_object(f) for f in fleet.odd],
    }
    return json.dumps(told, indent=1, ensure_ascii=True) + "\n"


def _vote(vote: majority.Vote) -> dict[str, Any]:
    return {
        "name": vote.name,
        "subject": safe(vote.subject),
        "status": (Status.OK if vote.agreed else vote.status).name,
        "most": None if vote.most is None else safe(vote.most),
        "values": [{"value": safe(value), "hosts": fold_hosts(hosts)} for value, hosts in vote.values.items()],
    }


def head(fleet: Fleet) -> str:
    names, silent = [h.name for h in fleet.hosts], [h.name for h in fleet.hosts if not h.answered]
    asked = f"{len(names)} {'host' if len(names) == 1 else 'hosts'}"
    return say(f"envcheck doctor on {fold_hosts(names)}: {asked}, {_answered(names, silent)}")


def _answered(names: Sequence[str], silent: Sequence[str]) -> str:
    if len(names) == 1:
        return "it did not answer" if silent else "it answered"
    if len(silent) == len(names):
        return "none answered"
    return f"all but {fold_hosts(silent)} answered" if silent else "all answered"


def _counted(fleet: Fleet, wrong: Sequence[Alike]) -> str:
    """Findings that several hosts share count once here."""
    told = counts([*(one.finding for one in wrong), *fleet.wrong])
    return f" ({say(well(fleet))}{f'; {told}' if told else ''})"


def well(fleet: Fleet) -> str:
    """As in 3 of 8 hosts are well."""
    return _well(sum(map(fleet.is_well, fleet.hosts)), len(fleet.hosts))


def _well(well: int, of: int) -> str:
    if of == 1:
        return "the host is well" if well else "the host is not well"
    return f"{well} of {of} hosts {'is' if well == 1 else 'are'} well"


def _next(fleet: Fleet, wrong: Sequence[Alike], style: Style) -> Iterator[str]:
    words, _, command = step(fleet, wrong).partition("\n")
    yield from _wrapped(words, style, say("Next: "))
    if command:
        yield f"          {command}"


def step(fleet: Fleet, wrong: Sequence[Alike]) -> str:
    """The worst finding's, with the hosts that it is about; a host's own before the vote's, which often follows."""
    worst = max([*(one.finding for one in wrong), *fleet.wrong], key=lambda f: f.status, default=None)
    if worst is None:
        return say("start the job, or ask about it first with --model and --method.")
    where = next((f"{_few(one.hosts)}: " for one in wrong if one.finding is worst), "")
    return where + next_step([replace(worst, waived="")])


def _common(votes: Sequence[majority.Vote], style: Style) -> Iterator[str]:
    rows = [v for v in votes if v.name in ROWS and v.most is not None]
    if not rows:
        return
    yield say("Common")
    wide = max(columns(say(safe(v.subject))) for v in rows)
    for v in rows:
        where = _few(v.values[v.most or ""])
        yield from _wrapped(f"{safe(v.most or '')}  {where}", style, f"    {_padded(say(safe(v.subject)), wide)}  ")
    for name, what in COUNTED.items():
        same = sum(v.name == name and v.agreed for v in votes)
        if same:
            yield f"    {_padded(say(what), wide)}  {say(f'{same} alike')}"
    yield ""


def _section(title: str, blocks: Sequence[Sequence[str]]) -> list[str]:
    return [title, *(line for block in blocks for line in block), ""] if blocks else []


def _odd(finding: Finding, style: Style) -> list[str]:
    lines = []
    for part in problems(finding) or [finding]:
        lines += [*_said(f"{part.name}: {part.seen}", part.status, style), *_remedied(part, style)]
    return lines


def _alike(one: Alike, style: Style) -> list[str]:
    """One wording in a line; of several each with its hosts."""
    f, where = one.finding, _few(one.hosts)
    if len(one.seen) == 1:
        lines = _said(f"{where}: {f.name}: {f.seen}", f.status, style)
    else:
        lines = _said(f"{where}: {f.name}:", f.status, style)
        for said, hosts in list(one.seen.items())[:WORDINGS]:
            lines += _wrapped(f"{_few(hosts)}: {safe(said)}", style, "        ")
        if len(one.seen) > WORDINGS:
            lines.append(f"        {say(f'and {len(one.seen) - WORDINGS} more wordings, in --json')}")
    return [*lines, *_evidence(f, style), *_remedied(f, style)]


def _evidence(finding: Finding, style: Style) -> Iterator[str]:
    for line in filter(None, (" ".join(safe(line).split()) for line in finding.evidence[:4])):
        yield from _wrapped(line, style, "        | ")


def _remedied(finding: Finding, style: Style) -> Iterator[str]:
    if finding.remedy:
        yield from _wrapped(safe(finding.remedy.words), style, "        ")
        yield from (f"          {safe(command)}" for command in finding.remedy.commands)


def _said(words: str, status: Status, style: Style) -> list[str]:
    return _wrapped(safe(words), style, f"    {style.mark(status)} ")


def _few(hosts: Sequence[str]) -> str:
    return safe(fold_hosts(hosts))


def _padded(text: str, wide: int) -> str:
    return text + " " * (wide - columns(text))


def _wrapped(text: str, style: Style, lead: str) -> list[str]:
    """The lead stands before the first line, blanks before the others; colours take no room."""
    wide = columns(plain(lead))
    lines = wrap(text, max(20, style.width - wide))
    return [(lead if n == 0 else " " * wide) + line for n, line in enumerate(lines or [""])]
