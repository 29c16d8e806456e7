"""Checks of the links between devices: complete, equally fast, and spread evenly over NUMA nodes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import lru_cache, wraps
from itertools import chain

from envcheck.core.check import Check, device_check
from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.findings import (
    CardJudge,
    count_missing_devices,
    fail,
    ok,
    quote_answer,
    skip,
    skipped_because,
    unknown,
    vendor_commands,
    warn,
)
from envcheck.core.messages import Message, _, join, mark, ngettext
from envcheck.core.model import Finding, Topology, diagnose

UNKNOWN_RELATIONS = frozenset({None, "", "NA", "N/A", "?"})
Relations = tuple[str | None, ...]
Profile = tuple[tuple[str, int], ...]  # relation → number of devices


def compare_listed_devices(judge: Callable[[Facts, VendorFacts], Finding]) -> CardJudge:
    """Compare only the devices that the tool lists: the effects of a lost device belong to the finding of its loss."""

    @wraps(judge)
    def judged(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
        lost = count_missing_devices(facts, v)
        if v.document and v.document.truncated:
            yield skipped_because("driver.whole_answer")
        elif len(v.devices) == 1 and not lost:
            yield skip(_("one device"))
        elif len(v.devices) > 1 and (v.topology or not lost):
            whole = _select_listed_devices(v)
            yield judge(facts, v if whole is v.topology else replace(v, topology=whole))
        if lost:
            left_out = ngettext(
                "without {count} device that is not listed", "without {count} devices that are not listed", lost
            )
            yield skipped_because("devices.count", left_out)

    return judged


@compare_listed_devices
def check_topology(facts: Facts, v: VendorFacts) -> Finding:
    """The topology lists a link for each pair of devices."""
    if v.topology is None:
        return unknown(
            _("the vendor tool does not report the topology"),
            diagnose(_("Run the command and check its output."), *vendor_commands(v, "topology")),
        )
    rows = {name: _row_relations(v.topology, name) for name in v.topology.names}
    if blanks := [] if UNKNOWN_RELATIONS.isdisjoint(chain(*rows.values())) else _find_missing_relations(v.topology):
        seen = _(
            "{count} device pairs have no link entry; the first is {first} to {second}",
            count=len(blanks),
            first=blanks[0][0],
            second=blanks[0][1],
        )
        words = _("Reseat the board, or upgrade the driver: a link is down, or the driver does not know it.")
        return fail(
            seen, diagnose(words, *vendor_commands(v, "topology")), evidence=_quote_matrix_row(facts, v, blanks[0][0])
        )
    if len(v.topology.names) != len(v.devices):
        seen = _(
            "the topology has {names_count} devices, the device list {devices_count}",
            names_count=len(v.topology.names),
            devices_count=len(v.devices),
        )
        shown = _quote_matrix_row(facts, v, v.topology.names[-1])
        return warn(
            seen,
            diagnose(_("Compare both outputs."), *vendor_commands(v, "topology"), *vendor_commands(v, "list")),
            evidence=shown,
        )
    return ok(
        _(
            "{names_count} devices, {values}",
            names_count=len(v.topology.names),
            values=_summarize_relations(rows.values()),
        )
    )


@compare_listed_devices
def check_uniform_links(facts: Facts, v: VendorFacts) -> Finding:
    """No device is connected by slower links than the others."""
    if v.topology is None or len(v.topology.names) < 2:
        return skipped_because("links.topology")
    rows, lost = {name: _link_profile(v.topology, name) for name in v.topology.names}, count_missing_devices(facts, v)
    rare = Counter(rows.values())
    usual, _unused = rare.most_common(1)[0]
    apart = {name: _count_differing_links(row, usual) for name, row in rows.items()}
    # The rarest row, and of these the one that differs most: the device's peer differs, too, by one link.
    odd = sorted((n for n in rows if apart[n] > lost), key=lambda name: (rare[rows[name]], -apart[name]))
    if odd:
        first = [name for name in odd if rows[name] == rows[odd[0]]]  # the rarest row: each of its peers lacks one link
        seen = _(
            "{first}: {rows}; most devices have {usual}",
            first=join(", ", first[:4]),
            rows=_format_profile(rows[first[0]]),
            usual=_format_profile(usual),
        )
        words = _(
            "Reseat the card, or exclude it with {visible_env}: collective communication runs at the "
            "speed of the slowest link.",
            visible_env=v.vendor.visible_env,
        )
        return warn(
            seen, diagnose(words, *vendor_commands(v, "topology")), evidence=_quote_matrix_row(facts, v, first[0])
        )
    alike = _format_profile(usual)
    return ok(
        _("each device has {alike}", alike=alike) if len(rare) == 1 else _("most devices have {alike}", alike=alike)
    )


@compare_listed_devices
def check_numa(facts: Facts, v: VendorFacts) -> Finding:
    """The devices are spread evenly over the NUMA nodes."""
    near = v.topology and (v.topology.numa_affinity or v.topology.cpu_affinity)
    sets = Counter(said for name in v.topology.names if (said := near.get(name))) if v.topology and near else Counter()
    if v.topology is not None and not near:
        return skip(_("the topology of this tool has no such column"))
    if not sets or v.topology is None or sum(sets.values()) < len(v.topology.names):
        return unknown(_("the vendor tool does not report the CPU affinity of the devices"))
    if max(sets.values()) - min(sets.values()) > count_missing_devices(facts, v):
        seen = join(
            ", ",
            (
                ngettext("{count} device at {cpus}", "{count} devices at {cpus}", n, cpus=cpus)
                for cpus, n in sets.most_common()
            ),
        )
        words = _(
            "Bind each rank to the CPUs of its device's NUMA node, or select the same number "
            "of devices on each NUMA node."
        )
        shown = _quote_matrix_row(facts, v, v.topology.names[0])
        return warn(seen, diagnose(words, *vendor_commands(v, "topology"), "lscpu | grep NUMA"), evidence=shown)
    least, most = min(sets.values()), max(sets.values())
    if least < most:
        return ok(
            _(
                "{sets_count} sets of CPUs with {least} or {most} devices each",
                sets_count=len(sets),
                least=least,
                most=most,
            )
        )
    return ok(_("{sets_count} sets of CPUs with {most} devices each", sets_count=len(sets), most=most))


def _select_listed_devices(v: VendorFacts) -> Topology | None:
    """Return the topology without devices that the list has lost, if their numbers identify them."""
    if v.topology is None or len(v.topology.names) <= len(v.devices):
        return v.topology
    numbers = {next((n for n in (d.phy_id, d.npu, d.index) if n is not None), -1) for d in v.devices}
    pairs = zip(v.topology.devices, v.topology.names, strict=True)
    kept = [device for device, name in pairs if (found := re.search(r"(?<!\d)\d+$", name)) and int(found[0]) in numbers]
    return replace(v.topology, devices=tuple(kept)) if len(kept) == len(v.devices) else v.topology


def _quote_matrix_row(facts: Facts, v: VendorFacts, name: str) -> tuple[str, ...]:
    """Evidence: the device's row of the matrix; the line with its column head begins differently."""
    key = next((key for key, document in v.documents.items() if document.topology), "")
    answer = facts.answers.get(key)
    lines = [line.strip() for line in answer.out.splitlines()] if answer else []
    row = next((line for line in lines if re.match(rf"{re.escape(name)}\s", line) and re.search(r"\bX\b", line)), "")
    return (*quote_answer(answer)[:1], *([row] if row else []))


def _find_missing_relations(topology: Topology) -> list[tuple[str, str]]:
    return [
        (row, column)
        for row in topology.names
        for column in topology.names
        if row != column and (topology.matrix.get(row) or {}).get(column) in UNKNOWN_RELATIONS
    ]


def _row_relations(topology: Topology, name: str) -> Relations:
    """The relations to each other device."""
    row = topology.matrix.get(name) or {}
    return tuple([row.get(other) for other in topology.names if other != name])


def _link_profile(topology: Topology, name: str) -> Profile:
    return _count_relations(_row_relations(topology, name))


# Cached: most rows of a machine are equal, and so are the machines of a fleet.
@lru_cache(maxsize=1024)
def _count_relations(relations: Relations) -> Profile:
    return tuple(sorted(Counter(map(str, relations)).items()))


@lru_cache(maxsize=1024)
def _count_differing_links(one: Profile, other: Profile) -> int:
    """Return by how many links two rows differ; a lost device removes one from each."""
    return (Counter(dict(one)) - Counter(dict(other))).total()


def _format_profile(profile: Profile) -> Message:
    return join(", ", (f"{n} × {relation}" for relation, n in profile))


def _summarize_relations(rows: Iterable[Relations]) -> Message:
    return _("connected by {rows}", rows=join(", ", sorted(map(str, set(chain(*rows))))))


CHECKS: tuple[Check, ...] = (
    device_check(
        "links.topology",
        check_topology,
        reads="the topology of the vendor tool",
        source=mark("npu-smi reference, nvidia-smi manual"),
        rule="FAIL if a pair has no link",
        fix="Check the driver and the vendor tool.",
    ),
    device_check(
        "links.uniform",
        check_uniform_links,
        reads="the topology of the vendor tool",
        source=mark("collective operations run at the speed of the slowest link"),
        rule="WARN if a device has more slow links than the missing devices explain",
        fix="Reseat the card, or exclude it.",
    ),
    device_check(
        "links.numa",
        check_numa,
        reads="the topology of the vendor tool",
        source=mark("ms-swift NPU page: CPU affinity"),
        rule="WARN if the spread is more uneven than the missing devices explain",
        fix="Bind ranks to the cores near their device.",
    ),
)
