"""Whether this machine is one that the recipe is for: its processor and its cards against what the jobs want.  Pure.

What is certain is an obstacle: a recipe that is for another architecture, or that wants more cards than there are,
would fail at its proof, hours later.  Cards that nobody can see yet are no obstacle: their driver may be missing.
"""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.core.facts import Facts
from envcheck.core.units import mib
from envcheck.settings.thresholds import least_share
from envcheck.vendors import VENDORS
from installers.plan.accelerator import Accelerators
from installers.plan.requirement import Obstacle
from installers.recipes.recipe import Job, Recipe, wanted

MIB_PER_GIB = 1024
NEXT = "choose another recipe (envcheck recipes), or a machine that has what this one wants"


def obstacles(recipe: Recipe, here: Accelerators | None, role: str = "") -> Iterator[Obstacle]:
    """`here` None: nobody looked, since a training's own gates judge."""
    if here is None:
        return
    yield from _architecture(recipe, here)
    if here.others:
        found = " and ".join(VENDORS[name].title for name in here.others)
        why = f"this machine has cards of {found} and none of {VENDORS[recipe.device].title}"
        yield Obstacle(f"{why}; {recipe.name} wants {_wishes(recipe, role)}", NEXT)
        return
    short = [job for job in _jobs(recipe, role) if _too_little(recipe, job, here)]
    if short and len(short) == len(_jobs(recipe, role)):
        yield Obstacle(f"{_seen(recipe, here)}; {recipe.name} wants {_wishes(recipe, role)}", NEXT)


def mind(recipe: Recipe, here: Accelerators | None, role: str = "") -> Iterator[str]:
    """The methods for which it is too small, where it is fit for another; and what was doubted before."""
    if here is None or here.others:
        return
    jobs = _jobs(recipe, role)
    short = [job for job in jobs if _too_little(recipe, job, here)]
    yield from here.doubts if not short else ()
    for job in short if len(short) < len(jobs) else ():
        yield f"not for {_called(job)}: {_seen(recipe, here)}; it wants {_wish(recipe, job)}"


def _architecture(recipe: Recipe, here: Accelerators) -> Iterator[Obstacle]:
    made_for = recipe.hardware.architectures
    if made_for and here.architecture not in made_for:
        note = recipe.notes.get("hardware.architectures")
        why = f"this machine's processor is {here.architecture}, and {recipe.name} is for {', '.join(made_for)}"
        yield Obstacle(why + (f" ({note.source})" if note else ""), NEXT)


def _jobs(recipe: Recipe, role: str) -> list[Job]:
    return [job for job in recipe.jobs if job.role in ("", role)]


def _too_little(recipe: Recipe, job: Job, here: Accelerators) -> bool:
    """A device whose memory is not told counts as large enough."""
    asks = wanted(recipe, job)
    if here.sizes_mib is None or asks.cards is None:
        return False
    least = (asks.memory_gib or 0) * MIB_PER_GIB * least_share(Facts())
    return sum(1 for size in here.sizes_mib if size is None or size >= least) < asks.cards


def _seen(recipe: Recipe, here: Accelerators) -> str:
    sizes = here.sizes_mib or ()
    told = sorted({mib(size) for size in sizes if size is not None})
    memory = f" of {' and '.join(told)}" if told else ""
    devices, are = ("device", "is") if len(sizes) == 1 else ("devices", "are")
    return f"{len(sizes)} {VENDORS[recipe.device].title} {devices}{memory} {are} here"


def _wishes(recipe: Recipe, role: str) -> str:
    """16 of 64 GiB, or each method with its own."""
    wishes = {_called(job): _wish(recipe, job) for job in _jobs(recipe, role)}
    if len(set(wishes.values())) == 1:
        return next(iter(wishes.values()))
    return ", and ".join(f"{wish} for {method}" for method, wish in wishes.items())


def _called(job: Job) -> str:
    return " ".join(filter(None, (job.method, job.variant)))


def _wish(recipe: Recipe, job: Job) -> str:
    asks = wanted(recipe, job)
    memory = f" of {asks.memory_gib:g} GiB" if asks.memory_gib else ""
    return f"{'some' if asks.cards is None else asks.cards}{memory}"
