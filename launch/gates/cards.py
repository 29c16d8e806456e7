"""The devices of the job: a clean list of them, cards that may work together."""

from __future__ import annotations

import math
import re

from envcheck.core.findings import plural
from envcheck.core.model import Finding, Status, Topology
from envcheck.vendors import VENDORS
from launch.gates.answers import answer, environment, ok, skip, used, vendor, visible
from launch.gates.context import GateContext

NAMED = re.compile(r"(GPU|MIG)-[\w-]+(,(GPU|MIG)-[\w-]+)*")  # UUIDs name what they mean
NUMBERS = re.compile(r"\d{1,4}(,\d{1,4})*")


def world(s: GateContext) -> Finding:
    """The processes of all nodes are a multiple of tensor x pipeline x sharding x data."""
    degrees, processes = dict(s.job.parallel), s.job.nodes * s.job.processes
    if not degrees:
        return skip("gate.world", "the job names no parallel degrees")
    product = math.prod(degrees.values())
    said = " x ".join(f"{name} {degree}" for name, degree in degrees.items())
    seen = f"{said} = {product}, on {s.job.nodes} x {s.job.processes} = {plural(processes, 'process')}"
    good = product > 0 and (processes == product if "data" in degrees else processes % product == 0)
    words = f"Take degrees whose product divides {processes}, or other --cards and --nnodes."
    return answer("gate.world", good, seen, words, f"envcheck plan --cards {processes} --search")


def visible_list(s: GateContext) -> Finding:
    """The list of devices that the training sees is clean, ascending, and as long as it has processes; one that is left
    out is told."""
    name, said = VENDORS[s.device].visible_env, visible(s)
    if name and said is None and name in s.stale:
        return _left_out(s, name, s.sight.environment.get(name, ""))
    if not name or said is None:
        return skip("gate.visible", f"{name} is not set: all devices are seen" if name else "there is no such list")
    found = vendor(s)
    has = len(found.devices) if found else 0
    wrong = _wrong(said, has if has >= s.job.processes else None, s.job.processes)  # too few: gate.devices says so
    words = "Numbers, ascending, with commas alone: at a blank or a number that is not there the list ends, silently."
    right = f"export {name}={','.join(map(str, range(s.job.processes)))}"
    return answer("gate.visible", wrong is None, f"{name}={said[:200]}{': ' + wrong if wrong else ''}", words, right)


def _left_out(s: GateContext, name: str, said: str) -> Finding:
    """A list that the recipe takes away: its launcher is told the machine's first cards, whatever the list says."""
    wrong = _wrong(said, None, s.job.processes)
    first = ",".join(map(str, range(s.job.processes)))
    if wrong is None and f"{said},".startswith(f"{first},"):
        return ok("gate.visible", f"{name}={said[:200]} begins with the cards on which the job starts")
    seen = f"{name}={said[:200]} is left out{': ' + wrong if wrong else ''}; the job starts on {_cards(first)}"
    words = (
        "Nothing here chooses cards by their numbers: start it where those cards alone are seen, as in a container or"
        " an allocation, or give a recipe of your own by --recipes whose launcher names them."
    )
    return answer("gate.visible", False, seen, words, bad=Status.WARN)


def _cards(first: str) -> str:
    return f"cards {first}" if "," in first else f"card {first}"


def _wrong(said: str, devices: int | None, processes: int) -> str | None:
    if NAMED.fullmatch(said):
        numbers = list(range(said.count(",") + 1))
    elif not NUMBERS.fullmatch(said):
        return "it holds something else than numbers and commas"
    else:
        numbers = [int(n) for n in said.split(",")]
    if numbers != sorted(set(numbers)):
        return "it is not ascending, or names one twice"
    if devices is not None and len(numbers) > 0 and numbers[-1] >= devices:
        return f"there are {devices} devices"
    return f"it names {len(numbers)}, the job starts {processes}" if len(numbers) < processes else None


def topology(s: GateContext) -> Finding:
    """The cards chosen are ones that collectives take together: on a Box16 those of one module, or pairs of both.

    A box of two modules with PCIe between them (Atlas 200T A2 Box16): cards of one module, or the same ones of both (0
    and 8, 1 and 9, ...), unless the modules talk by RoCE.  CANN's environment reference: HCCL_INTRA_PCIE_ENABLE and
    HCCL_INTRA_ROCE_ENABLE, which exclude each other.
    """
    found, kind = vendor(s), VENDORS[s.device]
    if not kind.module_link or s.job.processes < 2:
        return skip("gate.topology", "the job uses one card" if kind.module_link else "any cards may work together")
    variables = environment(s)
    pcie, roce = (variables.get(f"HCCL_INTRA_{way}_ENABLE", "") for way in ("PCIE", "ROCE"))
    if pcie == roce == "1":
        seen = "HCCL_INTRA_PCIE_ENABLE and HCCL_INTRA_ROCE_ENABLE are both 1"
        return answer("gate.topology", False, seen, "Set one of them alone.", "unset HCCL_INTRA_ROCE_ENABLE")
    look = kind.commands.get("topology", ())
    if not (found and found.topology) or len(used(s)) < s.job.processes:
        words = "Look at the links: on a box of two modules, cards are used in pairs of both."
        return answer("gate.topology", None, "the links between the cards were not told", words, *look)
    return _paired(s, modules(found.topology, kind.module_link), roce == "1", look)


def _paired(s: GateContext, parts: tuple[tuple[int, ...], ...], roce: bool, look: tuple[str, ...]) -> Finding:
    found = vendor(s)
    places = {id(d): place for place, d in enumerate(found.devices)} if found else {}
    mine = {places[id(d)] for d in used(s) if id(d) in places}
    if len(parts) != 2 or len(parts[0]) != len(parts[1]) or roce:
        several = len(parts) > 1
        return ok("gate.topology", f"{len(mine)} cards of {len(parts)} {'modules' if several else 'module'}")
    left, right = ({part.index(place) for place in mine if place in part} for part in parts)
    seen = f"{len(left)} cards of the first module, {len(right)} of the second"
    lone = sorted(left ^ right) if left and right else []
    evidence = tuple(f"card {(parts[0] if n in left else parts[1])[n]} has no partner" for n in lone)
    words = "Use cards of one module, or the same ones of both: --cards 8 or 16; or let them talk by RoCE."
    return answer("gate.topology", not lone, seen, words, *look, evidence=evidence)


def modules(found: Topology, link: str) -> tuple[tuple[int, ...], ...]:
    """Groups of cards with direct links to each other, by their places."""
    names, groups = found.names, []
    left = list(range(len(names)))
    while left:
        first = names[left[0]]
        rest = found.matrix.get(first, {})
        group = tuple(n for n in left if n == left[0] or rest.get(names[n]) == link)
        groups.append(group)
        left = [n for n in left if n not in group]
    return tuple(groups)


def mixed(s: GateContext) -> Finding:
    """The vendors of a mixed job work together: HCCL works with no other (FlagCX's table of features)."""
    recipe = s.recipe.device
    all_of_them = {job.device or recipe for job in s.recipe.jobs if job.method == s.job.method and job.role}
    if not s.job.role or len(all_of_them) < 2:
        return skip("gate.mixed", "all nodes have one vendor's cards")
    alone = sorted(VENDORS[name].title for name in all_of_them if not VENDORS[name].mixes)
    titles = ", ".join(sorted(VENDORS[name].title for name in all_of_them))
    words = f"Train on {alone[0]} alone: its collectives work with no other's." if alone else ""
    return answer("gate.mixed", not alone, f"a job over {titles}", words)
