"""What ought to be equal on all hosts of a fleet, as a table; and the vote on it, which names the odd ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from envcheck.checks import driver, toolkit
from envcheck.fleet.hosts import folded
from envcheck.model import Facts, Finding, Remedy, Severity, VendorFacts
from envcheck.vendors import VENDORS

Values = Mapping[str, str]  # subject → value, as "MTU of eth0" → "1500"
FAIL, WARN = Severity.FAIL, Severity.WARN
NOT_SET = "not set"
SHOWN = 3  # subjects in a sentence
# Of one node alone, as the launchers' documents have it.
OWN_VARIABLES = ("RANK", "TRAINER_ID", "POD_IP", "CURRENT_ENDPOINT", "_IF_IP", "POD_NAME", "PORT", "HOST_IP", "PRELOAD")
VIRTUAL = ("lo", "docker", "veth", "br-", "virbr", "cni", "flannel", "cali", "tun", "ifb", "kube", "lxc", "podman")


@dataclass(frozen=True)
class Voted:
    """`read` gives what one host says; `absent` is what a host without a subject that others have counts as.

    None, of either: it does not vote there, since it could not tell.
    """

    name: str
    read: Callable[[Facts], Values | None]
    severity: Severity
    words: str
    absent: str | None = None


def _cards(facts: Facts) -> Values:
    counted = {v.name: Counter(d.name or "unnamed" for d in v.devices) for v in facts.vendors if v.devices}
    named = [f"{n} × {name}" for found in counted.values() for name, n in sorted(found.items())]
    told = all(v.devices for v in facts.vendors)
    return {"cards": ", ".join(named) or "none"} if told else {}


def _of_vendors(what: str, read: Callable[[Facts, VendorFacts], str | None]) -> Callable[[Facts], Values]:
    def values(facts: Facts) -> Values:
        told = {f"{what} ({VENDORS[v.name].title})": read(facts, v) for v in facts.vendors}
        return {subject: value for subject, value in told.items() if value}

    return values


def _host(what: str, read: Callable[[Facts], object]) -> Callable[[Facts], Values]:
    return lambda facts: {} if (value := read(facts)) is None else {what: str(value)}


def _packages(facts: Facts) -> Values | None:
    return facts.packages.packages if facts.packages else None


def _environment(facts: Facts) -> Values | None:
    told = facts.environment
    if told is None:
        return None
    return {name: value for name, value in told.items() if not name.endswith(OWN_VARIABLES)}


def _mtu(facts: Facts) -> Values:
    listed = facts.network.interfaces if facts.network else {}
    real = {name: one for name, one in listed.items() if one.up and one.mtu and not name.startswith(VIRTUAL)}
    return {f"MTU of {name}": str(one.mtu) for name, one in real.items()}


def _driver(facts: Facts, v: VendorFacts) -> str | None:
    return v.document.driver_version if v.document else None


def _firmware(facts: Facts, v: VendorFacts) -> str | None:
    return driver.firmware_version(v)


TABLE = (
    Voted("fleet.cards", _cards, FAIL, "Use nodes with the same cards, or --cards with what all have."),
    Voted("fleet.driver", _of_vendors("driver", _driver), WARN,
          "Nodes of one driver are the tested case: update the odd one."),
    Voted("fleet.firmware", _of_vendors("firmware", _firmware), WARN,
          "Update the odd one's firmware with its driver."),
    Voted("fleet.toolkit", _of_vendors("toolkit", toolkit.toolkit_version), WARN,
          "Use one toolkit, or one image, on all nodes."),
    Voted("fleet.architecture", _host("architecture", lambda f: f.host.architecture if f.host else None), FAIL,
          "One job wants one architecture: wheels and images are built for it."),
    Voted("fleet.kernel", _host("kernel", lambda f: f.host.kernel if f.host else None), WARN,
          "Boot the same kernel on all: the driver's module is built for it."),
    Voted("fleet.os", _host("system", lambda f: f.host.os if f.host else None), WARN, "Use one system on all nodes."),
    Voted("fleet.numa", _host("NUMA nodes", lambda f: f.host.numa_nodes if f.host else None), WARN,
          "Look at the odd one's firmware settings (NPS, sub-NUMA clustering)."),
    Voted("fleet.python", _host("Python", lambda f: f.packages.python if f.packages else None), WARN,
          "Use one Python, or one image, on all nodes."),
    Voted("fleet.packages", _packages, WARN, "Provision the nodes by one lock: envcheck provision --locked.",
          "not installed"),
    Voted("fleet.mtu", _mtu, FAIL, "Give the interface the same MTU on all nodes: large packets get lost otherwise."),
    Voted("fleet.environment", _environment, WARN, "Set the variable alike on all nodes.", NOT_SET),
)  # fmt: skip


@dataclass(frozen=True)
class Vote:
    """One subject: what most say, and the others; `most` is None where no value has more than half."""

    name: str
    subject: str
    most: str | None
    values: Mapping[str, tuple[str, ...]]  # value → hosts, most first
    severity: Severity
    words: str

    @property
    def agreed(self) -> bool:
        return len(self.values) == 1

    @property
    def others(self) -> Mapping[str, tuple[str, ...]]:
        return {value: hosts for value, hosts in self.values.items() if value != self.most}


def values(facts: Facts) -> dict[str, Values]:
    """What one host says of each line of the table that it could tell; small, so that a fleet's can be kept."""
    return {line.name: said for line in TABLE if (said := line.read(facts)) is not None}


def votes(told: Mapping[str, Mapping[str, Values]]) -> list[Vote]:
    """All subjects of the table over host → values(facts)."""
    by_line = {line: {host: said[line.name] for host, said in told.items() if line.name in said} for line in TABLE}
    return [vote for line, said in by_line.items() for vote in _line(line, said)]


def findings(found: Iterable[Vote]) -> list[Finding]:
    """What is not agreed, the odd hosts first; subjects that split the hosts alike (packages) are told together."""
    groups: dict[tuple[str, tuple[tuple[str, ...], ...]], list[Vote]] = {}
    for vote in found:
        if not vote.agreed:
            groups.setdefault((vote.name, tuple(sorted(vote.values.values()))), []).append(vote)
    return [_finding(alike) for alike in groups.values()]


def _finding(alike: Sequence[Vote]) -> Finding:
    lines = [_sentence(vote) for vote in alike]
    more = f"; {len(lines) - SHOWN} more differ so" if lines[SHOWN:] else ""
    seen, remedy = "; ".join(lines[:SHOWN]) + more, Remedy(alike[0].words)
    return Finding(alike[0].name, alike[0].severity, seen, remedy, tuple(lines[SHOWN:][:50]), "the vote of the hosts")


def _sentence(vote: Vote) -> str:
    shown = [f"{value[:80]} on {folded(hosts)}" for value, hosts in vote.others.items()]
    if vote.most is not None:
        shown.append(f"{vote.most[:80]} on {folded(vote.values[vote.most])}")
    return f"{vote.subject}: {', '.join(shown[:4])}{f' and {len(shown) - 4} more' if shown[4:] else ''}"


def _line(line: Voted, told: Mapping[str, Values]) -> Iterator[Vote]:
    for subject in sorted({subject for said in told.values() for subject in said}):
        by_value: dict[str, list[str]] = {}
        for host, said in told.items():
            value = said.get(subject, line.absent)
            if value is not None:
                by_value.setdefault(value, []).append(host)
        yield _vote(line, subject, by_value)


def _vote(line: Voted, subject: str, by_value: Mapping[str, list[str]]) -> Vote:
    ranked = sorted(by_value.items(), key=lambda pair: (-len(pair[1]), pair[0]))
    half = sum(len(hosts) for hosts in by_value.values()) / 2
    most = ranked[0][0] if len(ranked[0][1]) > half else None
    return Vote(line.name, subject, most, {value: tuple(hosts) for value, hosts in ranked}, line.severity, line.words)
