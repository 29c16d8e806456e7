"""How the devices are tied together: every pair known, none slower than its peers, spread evenly over NUMA nodes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import lru_cache, wraps
from itertools import chain

from envcheck.core.check import Check, of_devices
from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.findings import (
    CardJudge,
    commands,
    fail,
    follows,
    missing,
    ok,
    plural,
    quote,
    skip,
    unknown,
    warn,
)
from envcheck.core.model import Finding, Topology

UNKNOWN_RELATIONS = frozenset({None, "", "NA", "N/A", "?"})
Relations = tuple[str | None, ...]
Profile = tuple[tuple[str, int], ...]  # relation, and to how many devices


def of_listed(judge: Callable[[Facts, VendorFacts], Finding]) -> CardJudge:
    """The devices that the tool lists are compared; what one that it lost would show is told with its loss."""

    @wraps(judge)
    def judged(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
        lost = missing(facts, v)
        if v.document and v.document.truncated:
            yield follows("driver.whole_answer")
        elif len(v.devices) == 1 and not lost:
            yield skip("one device")
        elif len(v.devices) > 1 and (v.topology or not lost):
            whole = _listed(v)
            yield judge(facts, v if whole is v.topology else replace(v, topology=whole))
        if lost:
            yield follows("devices.count", f"less {plural(lost, 'device')} not listed")

    return judged


@of_listed
def topology(facts: Facts, v: VendorFacts) -> Finding:
    """The topology is complete: a relation for each pair of devices."""
    if v.topology is None:
        return unknown("the tool does not tell the topology", "Ask it by hand.", *commands(v, "topology"))
    rows = {name: _relations(v.topology, name) for name in v.topology.names}
    if blanks := [] if UNKNOWN_RELATIONS.isdisjoint(chain(*rows.values())) else _blanks(v.topology):
        seen = f"{len(blanks)} pairs have no relation, the first {blanks[0][0]} to {blanks[0][1]}"
        words = "Reseat the board, or upgrade the driver: a link is lost, or not known to it."
        return fail(seen, words, *commands(v, "topology"), evidence=_row(facts, v, blanks[0][0]))
    if len(v.topology.names) != len(v.devices):
        seen = f"the topology names {len(v.topology.names)} devices, the list {len(v.devices)}"
        shown = _row(facts, v, v.topology.names[-1])
        return warn(seen, "Compare both by hand.", *commands(v, "topology"), *commands(v, "list"), evidence=shown)
    return ok(f"{len(v.topology.names)} devices, {_summary(rows.values())}")


@of_listed
def uniform(facts: Facts, v: VendorFacts) -> Finding:
    """No device is tied to its peers by slower links than the others are."""
    if v.topology is None or len(v.topology.names) < 2:
        return follows("links.topology")
    rows, lost = {name: _profile(v.topology, name) for name in v.topology.names}, missing(facts, v)
    rare = Counter(rows.values())
    usual, _ = rare.most_common(1)[0]
    apart = {name: _apart(row, usual) for name, row in rows.items()}
    # The rarest row, and of these the one that differs most: a device's partner differs, too, by their one link.
    odd = sorted((n for n in rows if apart[n] > lost), key=lambda name: (rare[rows[name]], -apart[name]))
    if odd:
        first = [name for name in odd if rows[name] == rows[odd[0]]]  # the rarest row: its peers miss one link each
        seen = f"{', '.join(first[:4])}: {_words(rows[first[0]])}, where most have {_words(usual)}"
        words = f"Reseat the card, or leave it out with {v.vendor.visible_env}: collectives run at the slowest link."
        return warn(seen, words, *commands(v, "topology"), evidence=_row(facts, v, first[0]))
    alike = _words(usual)
    return ok(f"each device has {alike}" if len(rare) == 1 else f"most devices have {alike}")


@of_listed
def numa(facts: Facts, v: VendorFacts) -> Finding:
    """The devices are spread evenly over NUMA nodes."""
    near = v.topology and (v.topology.numa_affinity or v.topology.cpu_affinity)
    sets = Counter(said for name in v.topology.names if (said := near.get(name))) if v.topology and near else Counter()
    if v.topology is not None and not near:
        return skip("this tool's topology has no such column")
    if not sets or v.topology is None or sum(sets.values()) < len(v.topology.names):
        return unknown("the tool does not tell which CPUs are near each device")
    if max(sets.values()) - min(sets.values()) > missing(facts, v):
        seen = ", ".join(f"{plural(n, 'device')} at {said}" for said, n in sets.most_common())
        words = "Bind each rank to the CPUs near its device, or choose an even set of devices."
        shown = _row(facts, v, v.topology.names[0])
        return warn(seen, words, *commands(v, "topology"), "lscpu | grep NUMA", evidence=shown)
    least, most = min(sets.values()), max(sets.values())
    if least < most:
        return ok(f"{len(sets)} sets of CPUs with {least} or {most} devices each")
    return ok(f"{len(sets)} sets of CPUs with {most} devices each")


def _listed(v: VendorFacts) -> Topology | None:
    """Without devices that the list has lost, where the names can be told apart by their numbers."""
    if v.topology is None or len(v.topology.names) <= len(v.devices):
        return v.topology
    numbers = {next((n for n in (d.phy_id, d.npu, d.index) if n is not None), -1) for d in v.devices}
    pairs = zip(v.topology.devices, v.topology.names, strict=True)
    kept = [device for device, name in pairs if (found := re.search(r"\d+$", name)) and int(found[0]) in numbers]
    return replace(v.topology, devices=tuple(kept)) if len(kept) == len(v.devices) else v.topology


def _row(facts: Facts, v: VendorFacts, name: str) -> tuple[str, ...]:
    """Evidence: the device's row of the matrix; its column head stands in a line that begins otherwise."""
    key = next((key for key, document in v.documents.items() if document.topology), "")
    answer = facts.answers.get(key)
    lines = [line.strip() for line in answer.out.splitlines()] if answer else []
    row = next((line for line in lines if re.match(rf"{re.escape(name)}\s", line) and re.search(r"\bX\b", line)), "")
    return (*quote(answer)[:1], *([row] if row else []))


def _blanks(topology: Topology) -> list[tuple[str, str]]:
    return [
        (row, column)
        for row in topology.names
        for column in topology.names
        if row != column and (topology.matrix.get(row) or {}).get(column) in UNKNOWN_RELATIONS
    ]


def _relations(topology: Topology, name: str) -> Relations:
    """To each other device."""
    row = topology.matrix.get(name) or {}
    return tuple([row.get(other) for other in topology.names if other != name])


def _profile(topology: Topology, name: str) -> Profile:
    return _counted(_relations(topology, name))


# The rows of a machine are much alike, and so are the machines of a fleet.
@lru_cache(maxsize=1024)
def _counted(relations: Relations) -> Profile:
    return tuple(sorted(Counter(map(str, relations)).items()))


@lru_cache(maxsize=1024)
def _apart(one: Profile, other: Profile) -> int:
    """By how many links two rows differ; a lost device takes one from each."""
    return (Counter(dict(one)) - Counter(dict(other))).total()


def _words(profile: Profile) -> str:
    return " and ".join(f"{n} × {relation}" for relation, n in profile)


def _summary(rows: Iterable[Relations]) -> str:
    return f"tied by {', '.join(sorted(map(str, set(chain(*rows)))))}"


CHECKS: tuple[Check, ...] = (
    of_devices(
        "links.topology",
        topology,
        reads="the tool's topology",
        source="npu-smi reference, nvidia-smi manual",
        rule="FAIL when a pair has no relation",
        fix="Look at driver and tool.",
    ),
    of_devices(
        "links.uniform",
        uniform,
        reads="the tool's topology",
        source="collectives run at the slowest link",
        rule="WARN when a device has slower links than most, more of them than devices are missing",
        fix="Reseat the card, or leave it out.",
    ),
    of_devices(
        "links.numa",
        numa,
        reads="the tool's topology",
        source="ms-swift's NPU page: CPU affinity",
        rule="WARN when devices are spread unevenly, by more than are missing",
        fix="Bind ranks to the processors near their device.",
    ),
)
