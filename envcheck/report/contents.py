"""What a report is about: one host or many, and what a comparison of the hosts found.  Plain data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from envcheck.core.facts import Facts
from envcheck.core.language.findings import localised
from envcheck.core.model import Finding, Status
from envcheck.report.style import Style

REACH = "fleet.reach"  # whether a host answered


@dataclass(frozen=True)
class NextCommand:
    """What to do where nothing is amiss: in words, and as a command that works as it stands on that machine."""

    words: str = "See which recipe fits this machine:"
    command: str = "envcheck recipes"


@dataclass(frozen=True)
class Vote:
    """What ought to be equal on all hosts, one subject: `most` is None where no value has more than half."""

    name: str
    subject: str
    most: str | None
    values: Mapping[str, tuple[str, ...]]  # value → hosts, most first
    status: Status
    words: str

    @property
    def agreed(self) -> bool:
        return len(self.values) == 1

    @property
    def others(self) -> Mapping[str, tuple[str, ...]]:
        return {value: hosts for value, hosts in self.values.items() if value != self.most}

    @property
    def majority(self) -> tuple[str, ...]:
        """The hosts with the value that most have."""
        return self.values[self.most] if self.most is not None else ()


@dataclass(frozen=True)
class HostReport:
    """One host: what its checks found, and `outlier`, the comparison's findings that name it as different.

    `name` is empty for the machine that envcheck itself runs on.  `facts` are empty where no format shows devices.
    """

    findings: Sequence[Finding]
    facts: Facts = field(default_factory=Facts)
    name: str = ""
    answered: bool = True
    outlier: tuple[Finding, ...] = ()

    @property
    def all_findings(self) -> list[Finding]:
        return [*self.outlier, *self.findings]


@dataclass(frozen=True)
class Report:
    """One host or many: `votes` and `shared` are what a comparison of the hosts found, agreement included.

    `style` is the terminal's, `lang` the language of the words around the findings, `made` when the hosts were
    examined.  Of this machine alone: `job` is the document of the named job, None without one; `assumed_host` says
    for which other host it is resolved; `next_command` is for a machine on which nothing is amiss.
    """

    hosts: tuple[HostReport, ...]
    votes: tuple[Vote, ...] = ()
    shared: tuple[Finding, ...] = ()
    strict: bool = False
    style: Style = field(default_factory=Style)
    lang: str = "en"
    made: datetime | None = None
    job: Mapping[str, Any] | None = None
    assumed_host: str = ""
    next_command: NextCommand = NextCommand()

    @property
    def local(self) -> HostReport | None:
        """This machine, where the report is about it alone; None for hosts with names, one or many."""
        return self.hosts[0] if len(self.hosts) == 1 and not self.hosts[0].name else None

    @property
    def findings(self) -> list[Finding]:
        """What the verdict is of."""
        return [*(f for host in self.hosts for f in host.findings), *self.shared]

    def localised(self) -> Report:
        """In the language that a person has chosen."""
        hosts = (
            replace(host, findings=tuple(localised(host.findings)), outlier=tuple(localised(host.outlier)))
            for host in self.hosts
        )
        return replace(self, hosts=tuple(hosts), shared=tuple(localised(self.shared)))


@dataclass(frozen=True)
class FindingGroup:
    """One finding, and the hosts that have it; `seen` holds each wording with its own hosts."""

    finding: Finding
    hosts: tuple[str, ...]
    seen: Mapping[str, tuple[str, ...]]


def group_findings(hosts: Iterable[HostReport]) -> list[FindingGroup]:
    """What needs a look on the hosts, once with all hosts that have it; the worst first, then what most have."""
    groups: dict[tuple[str, ...], dict[str, list[str]]] = {}
    first: dict[tuple[str, ...], Finding] = {}
    for host in hosts:
        for part in (part for f in host.findings if not f.waived for part in problems(f)):
            key = group_key(part)
            first.setdefault(key, part)
            groups.setdefault(key, {}).setdefault(part.seen, []).append(host.name)
    found = [
        FindingGroup(
            first[key],
            tuple(dict.fromkeys(name for names in seen.values() for name in names)),
            {text: tuple(names) for text, names in seen.items()},
        )
        for key, seen in groups.items()
    ]
    return sorted(found, key=lambda g: (-g.finding.status, g.finding.name != REACH, -len(g.hosts)))


def group_key(part: Finding) -> tuple[str, ...]:
    """Findings with the same key are one for a reader: the same trouble with the same remedy."""
    return part.name, part.status.name, part.device, part.remedy.words if part.remedy else ""


def problems(finding: Finding) -> list[Finding]:
    """What is amiss, each part of it with the check's own status; nothing where all is well."""
    parts = (replace(finding, details=()), *finding.details) if finding.details else (finding,)
    return [replace(part, status=finding.status) for part in parts if part.status.is_problem]
