"""The content of a report: one host or many, and the comparison of the hosts.  Plain data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from envcheck.core.facts import Facts
from envcheck.core.language.localized_findings import localize_findings
from envcheck.core.messages import Message, _
from envcheck.core.model import Finding, Status
from envcheck.report.style import Style

REACH = "fleet.reach"  # whether a host responded


SEE_RECIPES = _("List the recipes that support this machine:")


@dataclass(frozen=True)
class NextCommand:
    """What to do if there are no issues: a sentence, and a command that works unchanged on that machine."""

    words: Message = SEE_RECIPES
    command: str = "envcheck recipes"


@dataclass(frozen=True)
class Vote:
    """A value that should be equal on all hosts; `most` is None if no value has a majority."""

    name: str
    subject: str
    most: str | None
    values: Mapping[str, tuple[str, ...]]  # value → hosts, the most common first
    status: Status
    words: Message

    @property
    def is_unanimous(self) -> bool:
        """Whether all hosts have the same value."""
        return len(self.values) == 1

    @property
    def minority_values(self) -> Mapping[str, tuple[str, ...]]:
        """The values other than that of the majority, with their hosts."""
        return {value: hosts for value, hosts in self.values.items() if value != self.most}

    @property
    def majority(self) -> tuple[str, ...]:
        """The hosts with the most common value."""
        return self.values[self.most] if self.most is not None else ()


@dataclass(frozen=True)
class HostReport:
    """One host: the findings of its checks, and `outlier`, the findings of the comparison that name it.

    `name` is empty for the local machine.  `facts` are empty if no format shows devices.
    """

    findings: Sequence[Finding]
    facts: Facts = field(default_factory=Facts)
    name: str = ""
    answered: bool = True
    outlier: tuple[Finding, ...] = ()

    @property
    def all_findings(self) -> list[Finding]:
        """The findings of the comparison about this host, then its own."""
        return [*self.outlier, *self.findings]


@dataclass(frozen=True)
class DoctorReport:
    """One host or many: `votes` and `shared` are the results of the comparison of the hosts, agreement included.

    `style` is that of the terminal, `lang` the language of the labels, `made` the time of the checks.  Only for the
    local machine: `job` is the JSON document of the job, None without one; `assumed_host` describes the other host for
    which the job is resolved; `next_command` is for a machine without issues.
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
    def local_host(self) -> HostReport | None:
        """The local machine, if the report is about it alone; None for one or more named hosts."""
        return self.hosts[0] if len(self.hosts) == 1 and not self.hosts[0].name else None

    @property
    def findings(self) -> list[Finding]:
        """The findings that decide the verdict."""
        return [*(f for host in self.hosts for f in host.findings), *self.shared]

    def localise_findings(self) -> DoctorReport:
        """Return the findings in the selected language."""
        hosts = (
            replace(
                host, findings=tuple(localize_findings(host.findings)), outlier=tuple(localize_findings(host.outlier))
            )
            for host in self.hosts
        )
        return replace(self, hosts=tuple(hosts), shared=tuple(localize_findings(self.shared)))


@dataclass(frozen=True)
class FindingGroup:
    """One finding and the hosts that have it; `seen` maps each wording to its hosts."""

    finding: Finding
    hosts: tuple[str, ...]
    seen: Mapping[str, tuple[str, ...]]


def group_findings(hosts: Iterable[HostReport]) -> list[FindingGroup]:
    """Return the problems of the hosts, each once with all its hosts: the worst first, then the most common."""
    groups: dict[tuple[str, ...], dict[str, list[str]]] = {}
    first: dict[tuple[str, ...], Finding] = {}
    for host in hosts:
        for part in (part for f in host.findings if not f.waived for part in list_problems(f)):
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
    """Return the key of a finding; findings with equal keys have the same problem and remedy."""
    return part.name, part.status.name, part.device, part.remedy.words if part.remedy else ""


def list_problems(finding: Finding) -> list[Finding]:
    """Return the problems in a finding, each part with the check's own status; empty if it passed."""
    parts = (replace(finding, details=()), *finding.details) if finding.details else (finding,)
    return [replace(part, status=finding.status) for part in parts if part.status.is_problem]
