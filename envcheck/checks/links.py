"""How the devices are tied together: every pair known, none slower than its peers, spread evenly over NUMA nodes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from envcheck.checks.check import Check, of_devices
from envcheck.checks.common import commands, fail, follows, incomplete, ok, plural, quote, skip, unknown, vendor, warn
from envcheck.model import Facts, Finding, Topology, VendorFacts

UNKNOWN_RELATIONS = (None, "", "NA", "N/A", "?")


def topology(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The topology is complete: a relation for each pair of devices."""
    if len(v.devices) == 1:
        yield skip("one device")
    elif cause := incomplete(facts, v):
        yield follows(cause)
    elif v.topology is None:
        yield unknown("the tool does not tell the topology", "Ask it by hand.", *commands(v, "topology"))
    elif blanks := _blanks(v.topology):
        seen = f"{len(blanks)} pairs have no relation, the first {blanks[0][0]} to {blanks[0][1]}"
        words = "Reseat the board, or upgrade the driver: a link is lost, or not known to it."
        yield fail(seen, words, *commands(v, "topology"), evidence=_row(facts, v, blanks[0][0]))
    elif len(v.topology.names) != len(v.devices):
        seen = f"the topology names {len(v.topology.names)} devices, the list {len(v.devices)}"
        shown = _row(facts, v, v.topology.names[-1])
        yield warn(seen, "Compare both by hand.", *commands(v, "topology"), *commands(v, "list"), evidence=shown)
    else:
        yield ok(f"{len(v.topology.names)} devices, {_summary(v.topology)}")


def uniform(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """No device is tied to its peers by slower links than the others are."""
    if len(v.devices) == 1:
        yield skip("one device")
        return
    if cause := incomplete(facts, v):
        yield follows(cause)
        return
    if v.topology is None or len(v.topology.names) < 2:
        yield follows("links.topology")
        return
    rows = {name: _profile(v.topology, name) for name in v.topology.names}
    usual, _ = Counter(rows.values()).most_common(1)[0]
    rare = Counter(rows.values())
    odd = sorted((name for name, row in rows.items() if row != usual), key=lambda name: rare[rows[name]])
    if not odd:
        yield ok(f"each device has {_words(usual)}")
    else:
        first = [name for name in odd if rows[name] == rows[odd[0]]]  # the rarest row: its peers miss one link each
        seen = f"{', '.join(first[:4])}: {_words(rows[first[0]])}, where most have {_words(usual)}"
        words = f"Reseat the card, or leave it out with {vendor(v).visible_env}: collectives run at the slowest link."
        yield warn(seen, words, *commands(v, "topology"), evidence=_row(facts, v, first[0]))


def numa(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The devices are spread evenly over NUMA nodes."""
    if len(v.devices) == 1:
        yield skip("one device")
        return
    if cause := incomplete(facts, v):
        yield follows(cause)
        return
    near = v.topology and (v.topology.numa_affinity or v.topology.cpu_affinity)
    sets = Counter(said for name in v.topology.names if (said := near.get(name))) if v.topology and near else Counter()
    if v.topology is not None and not near:
        yield skip("this tool's topology has no such column")
    elif not sets or v.topology is None or sum(sets.values()) < len(v.topology.names):
        yield unknown("the tool does not tell which CPUs are near each device")
    elif len(set(sets.values())) > 1:
        seen = ", ".join(f"{plural(n, 'device')} at {said}" for said, n in sets.most_common())
        words = "Bind each rank to the CPUs near its device, or choose an even set of devices."
        shown = _row(facts, v, v.topology.names[0])
        yield warn(seen, words, *commands(v, "topology"), "lscpu | grep NUMA", evidence=shown)
    else:
        yield ok(f"{len(sets)} sets of CPUs with {next(iter(sets.values()))} devices each")


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


def _profile(topology: Topology, name: str) -> tuple[tuple[str, int], ...]:
    row = topology.matrix.get(name) or {}
    return tuple(sorted(Counter(str(row.get(other)) for other in topology.names if other != name).items()))


def _words(profile: tuple[tuple[str, int], ...]) -> str:
    return " and ".join(f"{n} × {relation}" for relation, n in profile)


def _summary(topology: Topology) -> str:
    kinds = {relation for name in topology.names for relation, _ in _profile(topology, name)}
    return f"tied by {', '.join(sorted(kinds))}"


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
        rule="WARN when a device has slower links than most",
        fix="Reseat the card, or leave it out.",
    ),
    of_devices(
        "links.numa",
        numa,
        reads="the tool's topology",
        source="ms-swift's NPU page: CPU affinity",
        rule="WARN when devices are spread unevenly",
        fix="Bind ranks to the processors near their device.",
    ),
)
