"""Memory of cards, host and /dev/shm, as it is now, against what the job needs."""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.core.facts import Disk
from envcheck.core.model import Device, Finding, Remedy, Status
from envcheck.core.units import GIB, MIB, gib
from envcheck.settings.thresholds import limit_bytes
from envcheck.vendors import VENDORS
from installers.recipes.recipe import wanted
from launch.gates.answers import answer, holders, number, skip, unseen, used, vendor
from launch.gates.context import GateContext
from launch.planner import cards as planner_cards
from launch.planner import verdict

TOLERANCE = 0.05  # a "64 GiB" card shows a little less, a container's 128g of shm a page less


def device_memory(s: GateContext) -> Finding:
    """Every card that the job uses has the memory free that the planner wants, or else the recipe."""
    fit = s.facts.wanted.fit if s.facts.wanted else None
    if fit is None:
        return _floor(s)
    held = tuple(_held(s))
    if held and (fit.fits or _fits_empty(s)):
        worst = Status.FAIL if any(known == verdict.NOT for _, known, _ in held) else Status.UNKNOWN
        full = f"{len(held)} of {s.job.processes} cards are too full"
        full = full if s.job.processes > 1 else "the card is too full"
        seen = f"{full}: {'on an empty one ' * bool(fit.fits)}{fit.reason}"
        lines = tuple(line for _, _, line in held)
        return Finding("gate.memory", worst, seen, Remedy("Stop who holds it.", _list(s)), lines)
    status = {True: Status.OK, False: Status.FAIL, None: Status.UNKNOWN}[fit.fits]
    return Finding("gate.memory", status, fit.reason, fit.remedy, tuple(line for _, _, line in held))


def tells_holders(s: GateContext) -> bool:
    """Whether gate.memory is closed by who holds cards, and names every process that is on any."""
    found, gate = vendor(s), device_memory(s)
    if found is None or gate.status is not Status.FAIL or not found.processes:
        return False
    return all(
        process.pid is not None and f"(pid {process.pid}," in " ".join(gate.evidence) for process in found.processes
    )


def _fits_empty(s: GateContext) -> bool:
    """The job would fit, were all cards as free as the freest."""
    judged = list(planner_cards.judged(s.plan)) if s.plan else []
    return bool(judged) and max(judged, key=lambda pair: pair[0].free_gib)[1] == verdict.FITS


def _held(s: GateContext) -> Iterator[tuple[Device, str, str]]:
    """Cards of the job that are too full: each with its verdict, and in words with who holds it."""
    found = vendor(s)
    if s.plan is None or found is None:
        return
    judged = {card.place: (card, known) for card, known in planner_cards.judged(s.plan)}
    best = max((card.free_gib for card, _ in judged.values()), default=0.0)
    mine = used(s)
    for place, device in enumerate(found.devices):
        card, known = judged.get(place, (None, verdict.FITS))
        if card and device in mine and known != verdict.FITS and best - card.free_gib > planner_cards.ALIKE_GIB:
            who = holders(found, device)
            line = f"card {card.number}: {card.free_gib:.1f} of {card.memory_gib:.1f} GiB free"
            yield device, known, line + (f", held by {who}" if who else "")


def _floor(s: GateContext) -> Finding:
    """Without a plan: what the recipe says that a card must have."""
    least, found = wanted(s.recipe, s.job).memory_gib, vendor(s)
    if least is None or s.device == "cpu":
        return skip("gate.memory", "neither recipe nor planner say how much memory of a card it needs")
    told = [(d, _free_mib(d, VENDORS[s.device].idle_memory_mib)) for d in used(s)]
    known = [(d, free) for d, free in told if free is not None]
    if not (found and known):
        return answer("gate.memory", None, "the cards do not say how much memory they have", "See doctor.", *_list(s))
    short = [(d, free) for d, free in known if free < least * 1024 * (1 - TOLERANCE)]
    lines = tuple(
        f"card {number(d)}: {free / 1024:.1f} GiB free{', held by ' + w if (w := holders(found, d)) else ''}"
        for d, free in short
    )
    seen = f"{len(known) - len(short)} of {len(told)} cards have the {least:g} GiB free that the recipe wants"
    return answer("gate.memory", not short, seen, "Stop who holds it, or use larger cards.", *_list(s), evidence=lines)


def _free_mib(device: Device, idle_mib: int) -> int | None:
    """What an idle card's driver holds does not count as taken."""
    if device.memory_total_mib is None:
        return None
    return device.memory_total_mib - max(0, (device.memory_used_mib or 0) - idle_mib)


def _list(s: GateContext) -> tuple[str, ...]:
    return VENDORS[s.device].commands.get("list", ())


def host_memory(s: GateContext) -> Finding:
    """As much of the host's memory is free, and left to the container, as loading and offload take by our figures."""
    said = {"recipe": (wanted(s.recipe, s.job).host_memory_gib or 0) * GIB, "planner": s.plan.host if s.plan else 0.0}
    wants = max(said.values())
    if not wants:
        return skip("gate.host", "neither recipe nor planner say how much host memory it needs")
    left = [s.facts.host.memory_available_bytes if s.facts.host else None, s.sight.memory_bytes]
    has = min((n for n in left if n is not None), default=None) if left[0] is not None else None
    lines = [f"the {who}: {gib(n)}" for who, n in said.items() if n]
    lines += [f"a limit of {s.stage.title} leaves {gib(left[1])}"] if left[1] is not None else []
    seen = f"{'unknown' if has is None else gib(has)} of host memory free, the job wants {gib(wants)}"
    words = "End what else uses it; a job that offloads less, or fewer processes, needs less."
    return answer("gate.host", None if has is None else has >= wants, seen, words, "free -h", evidence=tuple(lines))


def shm(s: GateContext) -> Finding:
    """/dev/shm, as the training sees it, is as large as the recipe wants: a full one ends a training by a bus error."""
    if found := unseen("gate.shm", s):
        return found
    least = s.recipe.hardware.shm_gib
    if least is None and s.device == "cpu":
        return skip("gate.shm", "the recipe does not say how much it needs")
    wants = int(limit_bytes(s.facts, "host.shm.fail_gib")) if least is None else int(least * GIB)
    known = s.facts.disks.get("/dev/shm", Disk()) if s.facts.disks else Disk()
    total, free = known.total_bytes, known.free_bytes
    if s.stage.container:
        total, free = s.sight.shm_bytes, s.sight.shm_free_bytes
    where = f" in {s.stage.container}" if s.stage.container else ""
    seen = f"/dev/shm{where} holds {'unknown' if total is None else _size(total)}, the job wants {gib(wants)}"
    if total is not None and total >= wants * (1 - TOLERANCE) and free is not None and free < wants / 2:
        words = "Remove what killed jobs left there, when nobody uses it."
        return answer("gate.shm", False, f"{seen}; {_size(free)} free", words, "ls -l /dev/shm", bad=Status.WARN)
    good = None if total is None else total >= wants * (1 - TOLERANCE)
    fix = f"docker run --shm-size={max(1, wants // GIB)}g" if s.stage.container else ""
    words = "Make the container anew with more of it." if fix else "Make it larger."
    return answer("gate.shm", good, seen, words, fix or f"sudo mount -o remount,size={max(1, wants // GIB)}G /dev/shm")


def _size(count: int) -> str:
    return gib(count) if count >= GIB else f"{count // MIB} MiB"
