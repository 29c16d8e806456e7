"""What all reports say alike: the verdict, the exit code, the one next step, names of areas, and text made harmless."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from envcheck.core.errors import FIT, UNFIT, UNTOLD, outcome
from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.host_names import fold_hosts
from envcheck.core.language import say
from envcheck.core.language.width import tidy
from envcheck.core.model import Finding, Remedy, Status
from envcheck.core.text import plain
from envcheck.report.contents import HostReport, Report, group_findings

TEXT_LIMIT = 400
AMONG_HOSTS = "fleet"  # the area of what only a comparison of hosts finds
TITLES = {
    "driver": "Driver and tool",
    "devices": "Devices",
    "links": "Links between devices",
    "toolkit": "Toolkit",
    "network": "Network",
    "host": "Host",
    "engine": "Container engine",
    "python": "Python and packages",
    "job": "This job",
    "deep": "Active tests",
    "own": "Your own checks",
    "fleet": "Among the hosts",
}
# Votes with a row each; of packages, variables and interfaces there are too many: those that differ are named.
COMMON = ("fleet.cards", "fleet.driver", "fleet.firmware", "fleet.toolkit", "fleet.architecture", "fleet.os",
          "fleet.kernel", "fleet.numa", "fleet.python", "fleet.ports",
          "fleet.tls", "fleet.rank_table", "fleet.synchronised")  # fmt: skip
# Checks that block others come first.
ROOTS = ("driver.tool", "driver.whole_answer", "job.device", "devices.present", "engine.reachable")
_SENTENCE = re.compile(r".*?(?:[.](?=\s|$)|。)|.+")
# Bidirectional overrides can make text read as what it is not; the rest of what is not printable goes by isprintable.
_BIDI = re.compile("[\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def verdict(findings: Iterable[Finding]) -> Status:
    """The worst; what is blocked counts with its cause.  NOT_APPLICABLE when no check applied."""
    statuses = {counted(f) for f in findings}
    if statuses <= {Status.NOT_APPLICABLE}:
        return Status.NOT_APPLICABLE
    return max(statuses - {Status.NOT_APPLICABLE, Status.BLOCKED} or {Status.UNKNOWN})


def exit_code(findings: Sequence[Finding], strict: bool = False) -> int:
    """0 fit; 1 a check failed; 3 none failed but one, or all, could not be determined, or with `strict` warns."""
    worst = verdict(findings)
    if worst is Status.FAIL:
        return UNFIT
    untold = worst in (Status.NOT_APPLICABLE, Status.UNKNOWN) or any(counted(f) is Status.UNKNOWN for f in findings)
    return UNTOLD if untold or (strict and worst is Status.WARN) else FIT


def counted(finding: Finding) -> Status:
    """What it counts as: a finding that a person has accepted counts as well."""
    return Status.OK if finding.waived else finding.status


def group_blocked(findings: Iterable[Finding]) -> dict[str, list[str]]:
    """Which checks are blocked, by the name of the check that failed first: a cause is told once."""
    found: dict[str, list[str]] = {}
    for finding in findings:
        if finding.status is Status.BLOCKED:
            for cause in blocking(finding):
                found.setdefault(cause, []).append(safe(finding.name))
    return {cause: list(dict.fromkeys(names)) for cause, names in found.items()}


def blocking(finding: Finding) -> list[str]:
    """The checks that block it, the first of them first; none where it is not blocked."""
    if finding.status is not Status.BLOCKED:
        return []
    return list(dict.fromkeys(part.blocked_by for part in (finding, *finding.details) if part.blocked_by))


def next_step(findings: Sequence[Finding]) -> str:
    """The one thing to do first: what the worst finding advises, in a sentence, and its first command."""
    worst = worst_first(findings)
    if not worst:
        return ""
    remedy = worst[0].remedy or Remedy(say(f"Look at {safe(worst[0].name)}."))
    words = _SENTENCE.match(safe(remedy.words))
    said = words[0].rstrip(".: 。：") if words else say("Look")
    return f"{said}{say(':')}\n{safe(remedy.commands[0])}" if remedy.commands else f"{said}{say('.')}"


def findings_outcome(findings: Sequence[Finding], code: int) -> dict[str, Any]:
    """The end of a command whose verdict the findings are: the worst of them is the error."""
    worst = worst_first(findings)
    error = f"{safe(worst[0].name)}: {safe(worst[0].seen)}" if worst else summary(findings)
    return outcome(code, error, one_line(next_step(findings)))


def next_line(report: Report) -> str:
    """The next step with its command in one line, for programs; empty where this machine needs none."""
    if report.local and not worst_first(report.findings):
        return ""
    return one_line("\n".join(filter(None, advise(report))))


def one_line(step: str) -> str:
    return tidy(step.replace("\n", " "))


def advise(report: Report) -> tuple[str, str]:
    """What to do first, in words, and as a command, empty without one.

    Of many hosts it is the worst finding with the hosts that have it, a host's own before the comparison's, which
    often follows from it.
    """
    worst = max(problems_once(report), key=lambda pair: pair[1].status, default=None)
    if report.local and (step := next_step(report.findings)):
        words, _, command = step.partition("\n")
    elif verdict(report.findings) is Status.NOT_APPLICABLE:
        words, command = say("Ask for a check that applies here:"), "envcheck doctor --list-checks"
    elif report.local:
        words, command = say(report.next_command.words), report.next_command.command
    elif worst is None:
        words, command = say("start the job, or ask about it first with --model and --method."), ""
    else:
        where = f"{safe(fold_hosts(worst[0]))}: " if worst[0] else ""
        words, _, command = (where + next_step([replace(worst[1], waived="")])).partition("\n")
    return words, command


def problems_once(report: Report) -> list[tuple[tuple[str, ...], Finding]]:
    """What needs a look, with the hosts that have it; what several hosts share counts once, `()` is the comparison."""
    groups = [(group.hosts, group.finding) for group in group_findings(report.hosts)]
    return [*groups, *(((), f) for f in report.shared if f.status.is_problem)]


def summary(findings: Sequence[Finding]) -> str:
    """The verdict in a sentence; a warning beside something untold is no "fit"."""
    worst = verdict(findings)
    unknown = sum(counted(f) is Status.UNKNOWN for f in findings)
    if worst < Status.FAIL and unknown:
        return say(f"No failures, but {unknown} {'check' if unknown == 1 else 'checks'} could not run.")
    return say(VERDICTS[worst])


def aside(text: str) -> str:
    """In brackets, behind a sentence."""
    return f"{say(' (')}{text}{say(')')}"


def title(area: str) -> str:
    return say(TITLES[area]) if area in TITLES else safe(area)


def counts(findings: Iterable[Finding]) -> str:
    """As in 45 passed, 3 warnings, 1 failed, 6 not checked, 12 not applicable, 1 waived."""
    found = list(findings)
    told = {s: sum(f.status is s and not f.waived for f in found) for s in Status}
    words = [say(f"{told[s]} {word if told[s] == 1 else words}") for s, (word, words) in COUNTED.items() if told[s]]
    waived = sum(bool(f.waived) for f in found)
    return say(", ").join(words + [say(f"{waived} waived")] * bool(waived))


def tally(report: Report) -> str:
    """In brackets behind the verdict: how many checks have which status, of many hosts how many of them are well."""
    found = report.findings if report.local else [f for _, f in problems_once(report)]
    parts = [] if report.local else [say(count_well(report.hosts))]
    told = say("; ").join(filter(None, [*parts, counts(found)]))
    return aside(told) if told else ""


def common_rows(report: Report) -> list[tuple[str, str, str]]:
    """What most of the hosts have: the subject, the value, and which hosts have it."""
    rows = [v for v in report.votes if v.name in COMMON and v.most is not None]
    return [(say(safe(v.subject)), safe(v.most or ""), safe(fold_hosts(v.majority))) for v in rows]


def is_well(host: HostReport) -> bool:
    """By its own findings, and named by none of the comparison's."""
    return verdict(host.all_findings) is Status.OK


def count_well(hosts: Sequence[HostReport]) -> str:
    """As in 3 of 8 hosts are well."""
    well = sum(map(is_well, hosts))
    if len(hosts) == 1:
        return "the host is well" if well else "the host is not well"
    return f"{well} of {len(hosts)} hosts {'is' if well == 1 else 'are'} well"


def safe(text: str) -> str:
    """One line without control characters, cut to a bounded length."""
    flat = _BIDI.sub("", plain(text[: 8 * TEXT_LIMIT])).replace("\t", " ")
    return "".join(c if c.isprintable() else " " for c in flat).strip()[:TEXT_LIMIT]


def head(report: Report) -> str:
    """Which host, or hosts, and what is there."""
    return _head_of_machine(report.local.facts) if report.local else _head_of_hosts(report.hosts)


def _head_of_machine(facts: Facts) -> str:
    host = facts.host
    cards = [_cards(v) for v in facts.vendors]
    where = say(f"envcheck doctor on {host.hostname}") if host and host.hostname else "envcheck doctor"
    job = say(f", for {facts.wanted.recipe} {facts.wanted.method}") if facts.wanted else ""
    return safe(f"{where}{say(': ')}{say(', ').join(cards) or say('no accelerator, examined as cpu')}{job}")


def _head_of_hosts(hosts: Sequence[HostReport]) -> str:
    names, silent = [h.name for h in hosts], [h.name for h in hosts if not h.answered]
    asked = f"{len(names)} {'host' if len(names) == 1 else 'hosts'}"
    return safe(say(f"envcheck doctor on {fold_hosts(names)}: {asked}, {_answered(names, silent)}"))


def _answered(names: Sequence[str], silent: Sequence[str]) -> str:
    if len(names) == 1:
        return "it did not answer" if silent else "it answered"
    if len(silent) == len(names):
        return "none answered"
    return f"all but {fold_hosts(silent)} answered" if silent else "all answered"


def _cards(v: VendorFacts) -> str:
    name = say(v.vendor.title)
    if v.devices:
        return f"{len(v.devices)} × {name}"
    return say(f"{name} ({len(v.pci)} on the bus)") if v.pci else name


COUNTED = {
    Status.OK: ("passed", "passed"),
    Status.WARN: ("warning", "warnings"),
    Status.FAIL: ("failed", "failed"),
    Status.UNKNOWN: ("unknown", "unknown"),
    Status.BLOCKED: ("not checked", "not checked"),
    Status.NOT_APPLICABLE: ("not applicable", "not applicable"),
}
VERDICTS = {
    Status.OK: "Fit to train.",
    Status.NOT_APPLICABLE: "No check applies here.",
    Status.UNKNOWN: "The checks could not run.",
    Status.WARN: "Fit to train, with warnings.",
    Status.FAIL: "Not fit to train.",
}


def worst_first(findings: Sequence[Finding]) -> list[Finding]:
    wrong = [f for f in findings if counted(f).is_problem]
    return sorted(wrong, key=lambda f: (-f.status, f.name not in ROOTS, f.remedy is None))
