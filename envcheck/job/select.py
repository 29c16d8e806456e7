"""Which recipe and job of it a request means, on the machine of some facts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from envcheck.core.errors import UNFIT, EnvcheckError, UsageError
from envcheck.core.facts import Facts
from envcheck.core.model import Finding
from envcheck.job.cards import has_device
from envcheck.job.judgement import judge_idle
from envcheck.job.request import JobRequest
from envcheck.vendors import VENDORS
from installers.recipes import catalogue
from installers.recipes.catalogue import Offer, Shape, device_of, is_toy
from installers.recipes.recipe import Recipe, wanted


class NoFittingRecipeError(EnvcheckError):
    """This machine meets the requirements of none of the recipes that the request leaves open.

    `unfit` has each recipe with what this machine lacks for it, the one that would have been chosen first.
    """

    code = UNFIT

    def __init__(self, unfit: Sequence[tuple[str, str]]) -> None:
        rows = "".join(f"\n    {name}: {why}" for name, why in unfit)
        super().__init__(
            "no recipe for this request fits this machine",
            f"use another machine, or name a recipe to see its plan: --recipe NAME{rows}",
        )
        self.unfit = tuple(unfit)


@dataclass(frozen=True)
class Choice:
    """`reason` says why this one, where the request left several open; `equals` names recipes that are as good."""

    offer: Offer
    reason: str = ""
    equals: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Candidate:
    """A recipe with its first job that the machine can run; `size` is the largest one's: all cards' memory, in GiB.

    `unfit` is what only another machine meets, `outdated` a driver that the job requires newer.
    """

    offer: Offer
    unfit: tuple[Finding, ...]
    outdated: tuple[Finding, ...]
    size: float

    @property
    def recipe(self) -> Recipe:
        return self.offer[0]

    @property
    def rank(self) -> tuple[bool, bool, bool, bool, float]:
        """The lowest is meant: one that fits, toys last, one that runs with this driver, the usual one, the largest."""
        return bool(self.unfit), is_toy(self.recipe), bool(self.outdated), not self.recipe.usual, -self.size

    @property
    def lacks(self) -> str:
        return "; ".join(finding.seen for finding in (*self.unfit, *self.outdated))


def select_offer(request: JobRequest, recipes: Sequence[Recipe], facts: Facts) -> Choice:
    """The one that is meant.  UsageError where there is none, or where several are and the request does not let the
    machine choose; NoFittingRecipeError where it may choose and can run none of them."""
    named = [catalogue.by_name(recipes, request.recipe)] if request.recipe else list(recipes)
    words = (request.model, request.method, request.device, request.framework)
    size = Shape(request.variant, request.node_role, request.nnodes, request.cards)
    shape = None if request.may_choose and size == Shape() else size  # where the machine chooses no variant is advised
    if request.recipe and (any(words[:2]) or request.framework or request.device != "auto"):
        catalogue.agreeing(named[0], request.model, request.method, request.device, request.framework)
    offers = _of_any_count(catalogue.possible(named, *words, shape), named, request, facts)
    here = _of_this_machine(offers, request, facts)
    if len(here) > 1 and request.may_choose:
        return _choose_best(here, facts)
    return Choice(catalogue.select_only(here))


def _of_any_count(offers: list[Offer], named: Sequence[Recipe], request: JobRequest, facts: Facts) -> list[Offer]:
    """Where the asked number of nodes or cards leaves none for this machine's devices: those of another number.  The
    number does not choose the vendor, and what refuses it says which numbers would do."""
    here = {vendor.name for vendor in facts.vendors}
    if request.device != "auto" or len(here) != 1 or any(device_of(offer) in here for offer in offers):
        return offers
    words = (request.model, request.method, request.device, request.framework)
    anywhere = catalogue.possible(named, *words, Shape(request.variant, request.node_role, None, None))
    return [offer for offer in anywhere if device_of(offer) in here] or offers


def _of_this_machine(offers: list[Offer], request: JobRequest, facts: Facts) -> list[Offer]:
    """Where several kinds of devices would do and none was named: those of this machine."""
    if request.device != "auto" or len({device_of(offer) for offer in offers}) == 1:
        return offers
    here = device_here(facts)
    return [offer for offer in offers if device_of(offer) == here] or offers


def device_here(facts: Facts) -> str:
    """The one vendor whose cards are in the machine; cpu where there is none."""
    found = [vendor.name for vendor in facts.vendors]
    if len(found) > 1:
        raise UsageError(f"this machine has cards of {' and '.join(found)}", f"say --device {found[0]} or another")
    return found[0] if found else "cpu"


def _choose_best(offers: Sequence[Offer], facts: Facts) -> Choice:
    """The best recipe, and its first job that this machine can run."""
    devices = sorted({device_of(offer) for offer in offers})
    if len(devices) > 1:
        raise _which_device(offers, devices, facts)
    ranked = sorted(_list_candidates(offers, facts), key=lambda each: each.rank)
    best, others = ranked[0], ranked[1:]
    if best.unfit and others:
        raise NoFittingRecipeError([(each.recipe.name, each.lacks) for each in ranked])
    equals = tuple(each.recipe.name for each in others if each.rank == best.rank)
    return Choice(best.offer, _reason(best, others, facts) if others else "", equals)


def _which_device(offers: Sequence[Offer], devices: Sequence[str], facts: Facts) -> UsageError:
    """None of these devices is in the machine: which one's driver could be installed there, nobody knows."""
    here = " and ".join(vendor.vendor.title for vendor in facts.vendors) or "no accelerator"
    roles = sorted({job.role for _, job in offers if job.role})
    options = [f"--node-role {role}" for role in roles] or [f"--device {device}" for device in devices]
    recipes = len({recipe.name for recipe, _ in offers})
    why = f"{recipes} recipes match this request" if recipes > 1 else f"{offers[0][0].name} has several node roles"
    looked = f", and this machine has {here}" if facts.answers else ""
    return UsageError(why + looked, f"add {', '.join(options[:-1])} or {options[-1]}")


def _list_candidates(offers: Sequence[Offer], facts: Facts) -> list[_Candidate]:
    """One for each recipe."""
    by_recipe: dict[str, list[Offer]] = {}
    for offer in offers:
        by_recipe.setdefault(offer[0].name, []).append(offer)
    return [_judge_recipe(of_one, facts) for of_one in by_recipe.values()]


def _judge_recipe(offers: Sequence[Offer], facts: Facts) -> _Candidate:
    """By its first job that the machine can run, those of one node first."""
    judged = sorted((_judge_job(offer, facts) for offer in offers), key=lambda each: each.offer[1].nodes > 1)
    fitting = [each for each in judged if not each.unfit] or judged
    return replace(fitting[0], size=max(each.size for each in fitting))


def _judge_job(offer: Offer, facts: Facts) -> _Candidate:
    asked, found = wanted(*offer), judge_idle(offer, facts)
    return _Candidate(offer, found.unfit, found.outdated, (asked.cards or 0) * (asked.memory_gib or 0.0))


def _reason(best: _Candidate, others: Sequence[_Candidate], facts: Facts) -> str:
    """Why this recipe, what stands against the usual one, and which are as good."""
    device, name = device_of(best.offer), best.recipe.name
    if best.recipe.usual:
        reasons = [f"{name} is the usual recipe for {VENDORS[device].title}"]
    elif best.outdated:
        reasons = [f"{name} is the largest recipe that fits this machine once its driver is newer"]
    elif has_device(facts, device):
        reasons = [f"{name} is the largest recipe that fits this machine"]
    else:
        reasons = [f"{name} is the largest recipe for {VENDORS[device].title}"]
    reasons += [finding.seen for finding in best.outdated]
    reasons += [f"{each.recipe.name} does not fit: {each.lacks}" for each in others if each.recipe.usual and each.lacks]
    equals = [each.recipe.name for each in others if each.rank == best.rank]
    return "; ".join((*reasons, *([f"as good: {', '.join(equals)}"] if equals else [])))
