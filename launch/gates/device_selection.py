"""Gates for the devices of the job: process count, visible-device list, topology, vendors."""

from __future__ import annotations

import math
import re

from envcheck.core.derived.link_groups import group_by_module, judge_group
from envcheck.core.findings import format_ranges
from envcheck.core.messages import NOTHING, Message, _, join, ngettext, verbatim
from envcheck.core.model import Finding, Status, diagnose, fix, manual
from envcheck.vendors import VENDORS
from installers.recipes.own_recipe import find_own_job
from launch.gates.context import GateContext
from launch.gates.results import (
    build_environment,
    build_finding,
    build_not_applicable,
    build_ok,
    find_vendor_facts,
    read_visible_devices,
    select_job_devices,
)
from launch.rendering.job_scaling import format_search_command

NAMED = re.compile(r"(GPU|MIG)-[\w-]+(,(GPU|MIG)-[\w-]+)*")  # device UUIDs, which need no further check
NUMBERS = re.compile(r"\d{1,4}(,\d{1,4})*")


def check_world_size(s: GateContext) -> Finding:
    """The number of processes is a multiple of tensor x pipeline x sharding x data."""
    degrees, processes = dict(s.job.parallel), s.job.nodes * s.job.processes
    if not degrees:
        return build_not_applicable("gate.world", _("the job sets no parallel degrees"))
    product = math.prod(degrees.values())
    said = " x ".join(f"{name} {degree}" for name, degree in degrees.items())
    seen = ngettext(
        "{degrees} = {product}; the job starts {nodes} x {node_processes} = {count} process",
        "{degrees} = {product}; the job starts {nodes} x {node_processes} = {count} processes",
        processes,
        degrees=said,
        product=product,
        nodes=s.job.nodes,
        node_processes=s.job.processes,
    )
    good = product > 0 and (processes == product if "data" in degrees else processes % product == 0)
    words = _(
        "Choose parallel degrees whose product divides {processes}, or change --cards-per-node or --nnodes.",
        processes=processes,
    )
    if find_own_job(s.recipe) is not None:
        words = _(
            "In the job, choose parallel degrees whose product divides {processes}, or another number of processes.",
            processes=processes,
        )
    return build_finding("gate.world", good, seen, diagnose(words, format_search_command(s.recipe, s.job, processes)))


def check_visible_list(s: GateContext) -> Finding:
    """The visible-device list is valid, ascending and has a device per process; an ignored list is a warning."""
    name, said = VENDORS[s.device].visible_env, read_visible_devices(s)
    if name and said is None and name in s.stale and s.choice is None:
        return _judge_dropped_list(s, name, s.sight.environment.get(name, ""))
    if not name or said is None:
        return build_not_applicable(
            "gate.visible",
            _("{name} is not set: all devices are visible", name=name)
            if name
            else _("this device has no visible-device list"),
        )
    found = find_vendor_facts(s)
    has = len(found.devices) if found else 0
    wrong = _find_list_error(
        said, has if has >= s.job.processes else None, s.job.processes
    )  # gate.devices reports too few devices
    words = _(
        "Use ascending device numbers separated by commas only. The runtime silently ignores "
        "everything after a blank or an unknown number."
    )
    right = f"export {name}={','.join(map(str, range(s.job.processes)))}"
    seen = verbatim(f"{name}={said[:200]}")
    if wrong:
        seen = _("{variable}={value}: {wrong}", variable=name, value=said[:200], wrong=wrong)
    return build_finding("gate.visible", wrong is None, seen, fix(words, right))


def _judge_dropped_list(s: GateContext, name: str, said: str) -> Finding:
    """A list that the recipe unsets, and that is not a list of enough cards of this machine."""
    wrong = _find_list_error(said, None, s.job.processes)
    first = ",".join(map(str, range(s.job.processes)))
    if wrong is None and f"{said},".startswith(f"{first},"):
        return build_ok(
            "gate.visible", _("{name}={said} begins with the cards that the job uses", name=name, said=said[:200])
        )
    seen = _(
        "{variable}={value} is ignored; the job uses {cards}",
        variable=name,
        value=said[:200],
        cards=_format_cards(first),
    )
    if wrong:
        seen = _(
            "{variable}={value} is ignored because {wrong}; the job uses {cards}",
            variable=name,
            value=said[:200],
            wrong=wrong,
            cards=_format_cards(first),
        )
    words = _("Correct the list, or choose the devices with --devices.")
    return build_finding("gate.visible", False, seen, manual(words), bad=Status.WARN)


def _format_cards(first: str) -> Message:
    return _("cards {numbers}", numbers=first) if "," in first else _("card {numbers}", numbers=first)


def _find_list_error(said: str, devices: int | None, processes: int) -> Message | None:
    if NAMED.fullmatch(said):
        numbers = list(range(said.count(",") + 1))
    elif not NUMBERS.fullmatch(said):
        return _("it contains characters other than digits and commas")
    else:
        numbers = [int(n) for n in said.split(",")]
    if numbers != sorted(set(numbers)):
        return _("it is not ascending or contains duplicates")
    if devices is not None and len(numbers) > 0 and numbers[-1] >= devices:
        return _("it contains {number}, but the device numbers end at {last}", number=numbers[-1], last=devices - 1)
    return (
        _("it lists {listed} of the {needed} devices that the job needs", listed=len(numbers), needed=processes)
        if len(numbers) < processes
        else None
    )


def check_topology(s: GateContext) -> Finding:
    """The collectives support the selected cards together.

    On a server with two modules connected by PCIe (Atlas 200T A2 Box16) HCCL supports the cards of one module, or the
    same cards of both (0 and 8, 1 and 9, ...), unless the modules are connected by RoCE.  Source: CANN environment
    variable reference, HCCL_INTRA_PCIE_ENABLE and HCCL_INTRA_ROCE_ENABLE, which exclude each other.
    """
    found, kind = find_vendor_facts(s), VENDORS[s.device]
    if kind.group_link and s.job.processes > 1:
        return _judge_linked_group(s, kind.group_link)
    if not kind.module_link or s.job.processes < 2:
        return build_not_applicable(
            "gate.topology",
            _("the job uses one card")
            if kind.module_link or kind.group_link
            else _("any combination of cards is supported"),
        )
    variables = build_environment(s)
    pcie, roce = (variables.get(f"HCCL_INTRA_{way}_ENABLE", "") for way in ("PCIE", "ROCE"))
    if pcie == roce == "1":
        seen = _("HCCL_INTRA_PCIE_ENABLE and HCCL_INTRA_ROCE_ENABLE are both set to 1")
        return build_finding(
            "gate.topology", False, seen, fix(_("Set only one of them."), "unset HCCL_INTRA_ROCE_ENABLE")
        )
    look = kind.commands.get("topology", ())
    if not (found and found.topology) or len(select_job_devices(s)) < s.job.processes:
        words = _("Check the links. On a server with two modules, use cards in pairs, one from each module.")
        return build_finding(
            "gate.topology", None, _("cannot determine the links between the cards"), diagnose(words, *look)
        )
    links = {link for row in found.topology.matrix.values() for link in row.values() if link}
    if kind.module_link not in links:
        return build_ok("gate.topology", _("the cards are linked by {links}", links=join(", ", sorted(links - {"X"}))))
    return _judge_module_pairs(s, group_by_module(found.topology, kind.module_link), roce == "1", look)


def _judge_module_pairs(
    s: GateContext, parts: tuple[tuple[int, ...], ...], roce: bool, look: tuple[str, ...]
) -> Finding:
    found = find_vendor_facts(s)
    places = {id(d): place for place, d in enumerate(found.devices)} if found else {}
    mine = {places[id(d)] for d in select_job_devices(s) if id(d) in places}
    if len(parts) != 2 or len(parts[0]) != len(parts[1]) or roce:
        return build_ok(
            "gate.topology",
            ngettext(
                "{used_cards} cards in {count} module",
                "{used_cards} cards in {count} modules",
                len(parts),
                used_cards=len(mine),
            ),
        )
    left, right = ({part.index(place) for place in mine if place in part} for part in parts)
    seen = _(
        "{first_count} cards in the first module, {second_count} in the second",
        first_count=len(left),
        second_count=len(right),
    )
    lone = sorted(left ^ right) if left and right else []
    evidence = tuple(
        _("card {card} has no peer in the other module", card=(parts[0] if n in left else parts[1])[n]) for n in lone
    )
    words = _(
        "Use the cards of one module or the same cards of both (--cards-per-node 8 or 16), or "
        "connect the modules by RoCE."
    )
    return build_finding("gate.topology", not lone, seen, diagnose(words, *look), evidence=evidence)


def _judge_linked_group(s: GateContext, link: str) -> Finding:
    """The cards of the job are linked to each other, or are whole groups."""
    found, look = find_vendor_facts(s), VENDORS[s.device].commands.get("topology", ())
    mine = select_job_devices(s)
    if found is None or found.topology is None or len(mine) < s.job.processes:
        words = _("Check the links: use cards that are all linked to each other by {link}.", link=link)
        seen = _("cannot determine the links between the cards")
        return build_finding("gate.topology", None, seen, diagnose(words, *look))
    places = {id(device): place for place, device in enumerate(found.devices)}
    used = [places[id(device)] for device in mine if id(device) in places]
    verdict = judge_group(found.topology, link, VENDORS[s.device].group_size, used)
    if verdict.fits:
        return build_ok("gate.topology", _("cards {cards} work together", cards=format_ranges(used)))
    first, second = verdict.unlinked or (0, 0)
    seen = _("{link} does not link cards {first} and {second}", link=link, first=first, second=second)
    if verdict.fits is None:
        words = _("Use all cards of the machine, or fewer cards that are all linked to each other.")
        return build_finding("gate.topology", None, seen, diagnose(words, *look))
    if not verdict.groups:
        words = _("Use a host, or ask the scheduler for cards, with {count} linked to each other.", count=len(used))
        return build_finding("gate.topology", False, seen, diagnose(words, *look))
    named = join(_(" or "), map(format_ranges, verdict.groups))
    words = _("Use cards that are linked to each other with --devices: {groups}.", groups=named)
    return build_finding("gate.topology", False, seen, diagnose(words, *look))


def check_mixed_vendors(s: GateContext) -> Finding:
    """The vendors of a mixed job work together: HCCL supports only Ascend (FlagCX feature table)."""
    recipe = s.recipe.device
    all_of_them = {job.device or recipe for job in s.recipe.jobs if job.method == s.job.method and job.role}
    if not s.job.role or len(all_of_them) < 2:
        return build_not_applicable("gate.mixed", _("all nodes use cards from one vendor"))
    alone = sorted(VENDORS[name].title for name in all_of_them if not VENDORS[name].mixes)
    titles = join(", ", sorted(VENDORS[name].title for name in all_of_them))
    words = (
        _("Train on {alone} only: its collectives do not work with other vendors' cards.", alone=alone[0])
        if alone
        else NOTHING
    )
    return build_finding("gate.mixed", not alone, _("the job combines {titles}", titles=titles), manual(words))
