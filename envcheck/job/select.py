"""Select the recipe and job that a request means on a machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from envcheck.core.errors import CHECK_FAILED, EnvcheckError, UsageError
from envcheck.core.facts import Facts
from envcheck.core.messages import _, join
from envcheck.core.model import Finding
from envcheck.job.card_ids import has_device
from envcheck.job.judgement import judge_idle
from envcheck.job.request import JobRequest
from envcheck.vendors import VENDORS
from installers.recipes import catalogue
from installers.recipes.catalogue import JobShape, Offer, is_toy, job_device
from installers.recipes.recipe import Recipe, derive_requirements


class NoFittingRecipeError(EnvcheckError):
    """This machine meets the requirements of none of the matching recipes.

    `unfit` has each recipe with the requirements that fail, best candidate first.
    """

    code = CHECK_FAILED

    def __init__(self, unfit: Sequence[tuple[str, str]]) -> None:
        rows = join("", (_("\n    {name}: {why}", name=name, why=why) for name, why in unfit))
        super().__init__(
            _("no recipe for this request fits this machine"),
            _("use another machine, or show the plan of a recipe with --recipe NAME{rows}", rows=rows),
        )
        self.unfit = tuple(unfit)


@dataclass(frozen=True)
class RecipeChoice:
    """`reason` explains the choice if several recipes matched; `equals` lists equivalent recipes."""

    offer: Offer
    reason: str = ""
    equals: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Candidate:
    """A recipe with its first job that the machine can run; `size` is the memory of all cards of its largest job, GiB.

    `unfit`: failed requirements that only another machine can meet; `outdated`: those that a newer driver can meet.
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
        """Sort key, lowest first: fits, no toy model, runs with this driver, default recipe, largest."""
        return bool(self.unfit), is_toy(self.recipe), bool(self.outdated), not self.recipe.usual, -self.size

    @property
    def shortfall(self) -> str:
        return join("; ", (finding.seen for finding in (*self.unfit, *self.outdated)))


def select_offer(request: JobRequest, recipes: Sequence[Recipe], facts: Facts) -> RecipeChoice:
    """Return the recipe and job of a request.

    Raises UsageError if none matches, or if several do and `request.may_choose` is False; NoFittingRecipeError if it is
    True and this machine can run none of them.
    """
    named = [catalogue.find_recipe(recipes, request.recipe)] if request.recipe else list(recipes)
    words = (request.model, request.method, request.device, request.framework)
    size = JobShape(request.variant, request.node_role, request.nnodes, request.cards)
    shape = None if request.may_choose and size == JobShape() else size  # if the machine chooses, any variant matches
    if request.recipe and (any(words[:2]) or request.framework or request.device != "auto"):
        catalogue.check_agreement(named[0], request.model, request.method, request.device, request.framework)
    offers = _widen_to_any_count(catalogue.list_possible(named, *words, shape), named, request, facts)
    here = _narrow_to_this_machine(offers, request, facts)
    if len(here) > 1 and request.may_choose:
        return _choose_best(here, facts)
    return RecipeChoice(catalogue.select_only(here))


def _widen_to_any_count(offers: list[Offer], named: Sequence[Recipe], request: JobRequest, facts: Facts) -> list[Offer]:
    """Return offers with any number of nodes and cards if the requested number leaves none for this machine's devices.

    The number does not select the vendor; the later error message lists the valid numbers.
    """
    here = {vendor.name for vendor in facts.vendors}
    if request.device != "auto" or len(here) != 1 or any(job_device(offer) in here for offer in offers):
        return offers
    words = (request.model, request.method, request.device, request.framework)
    anywhere = catalogue.list_possible(named, *words, JobShape(request.variant, request.node_role, None, None))
    return [offer for offer in anywhere if job_device(offer) in here] or offers


def _narrow_to_this_machine(offers: list[Offer], request: JobRequest, facts: Facts) -> list[Offer]:
    """Keep the offers for this machine's device if no device was requested and several kinds match."""
    if request.device != "auto" or len({job_device(offer) for offer in offers}) == 1:
        return offers
    here = find_local_device(facts)
    return [offer for offer in offers if job_device(offer) == here] or offers


def find_local_device(facts: Facts) -> str:
    """Return the vendor of the machine's cards, "cpu" without cards; UsageError for cards of several vendors."""
    found = [vendor.name for vendor in facts.vendors]
    if len(found) > 1:
        raise UsageError(
            _("this machine has devices of {found}", found=join(_(" and "), found)),
            _("add --device {found}, or another", found=found[0]),
        )
    return found[0] if found else "cpu"


def _choose_best(offers: Sequence[Offer], facts: Facts) -> RecipeChoice:
    """Return the best recipe with its first job that this machine can run."""
    devices = sorted({job_device(offer) for offer in offers})
    if len(devices) > 1:
        raise _ask_for_device(offers, devices, facts)
    ranked = sorted(_list_candidates(offers, facts), key=lambda each: each.rank)
    best, others = ranked[0], ranked[1:]
    if best.unfit and others:
        raise NoFittingRecipeError([(each.recipe.name, each.shortfall) for each in ranked])
    equals = tuple(each.recipe.name for each in others if each.rank == best.rank)
    return RecipeChoice(best.offer, _explain_choice(best, others, facts) if others else "", equals)


def _ask_for_device(offers: Sequence[Offer], devices: Sequence[str], facts: Facts) -> UsageError:
    """Return the error for a request that matches several kinds of devices, none of which is in this machine."""
    here = join(_(" and "), (vendor.vendor.title for vendor in facts.vendors))
    roles = sorted({job.role for _unused, job in offers if job.role})
    options = [f"--node-role {role}" for role in roles] or [f"--device {device}" for device in devices]
    recipes = len({recipe.name for recipe, _unused in offers})
    why = (
        _("{recipes} recipes match this request", recipes=recipes)
        if recipes > 1
        else _("{name} has several node roles", name=offers[0][0].name)
    )
    if facts.answers:
        why = (
            _("{problem}; this machine has {titles} devices", problem=why, titles=here)
            if here
            else _("{problem}; no accelerator found on this machine", problem=why)
        )
    return UsageError(
        why,
        _("add {options} or {last}", options=join(", ", options[:-1]), last=options[-1])
        if len(options) > 1
        else _("add {option}", option=options[0]),
    )


def _list_candidates(offers: Sequence[Offer], facts: Facts) -> list[_Candidate]:
    """Return one candidate per recipe."""
    by_recipe: dict[str, list[Offer]] = {}
    for offer in offers:
        by_recipe.setdefault(offer[0].name, []).append(offer)
    return [_judge_recipe(of_one, facts) for of_one in by_recipe.values()]


def _judge_recipe(offers: Sequence[Offer], facts: Facts) -> _Candidate:
    """Return the recipe with its first job that the machine can run, single-node jobs first."""
    judged = sorted((_judge_job(offer, facts) for offer in offers), key=lambda each: each.offer[1].nodes > 1)
    fitting = [each for each in judged if not each.unfit] or judged
    return replace(fitting[0], size=max(each.size for each in fitting))


def _judge_job(offer: Offer, facts: Facts) -> _Candidate:
    asked, found = derive_requirements(*offer), judge_idle(offer, facts)
    return _Candidate(
        offer, found.unmet_findings, found.outdated_findings, (asked.cards or 0) * (asked.memory_gib or 0.0)
    )


def _explain_choice(best: _Candidate, others: Sequence[_Candidate], facts: Facts) -> str:
    """Return why this recipe was chosen, why the default one was not, and which recipes are equivalent."""
    device, name = job_device(best.offer), best.recipe.name
    if best.recipe.usual:
        reasons = [_("{name} is the default recipe for {title}", name=name, title=VENDORS[device].title)]
    elif best.outdated:
        reasons = [_("{name} is the largest recipe that fits this machine with a newer driver", name=name)]
    elif has_device(facts, device):
        reasons = [_("{name} is the largest recipe that fits this machine", name=name)]
    else:
        reasons = [_("{name} is the largest recipe for {title}", name=name, title=VENDORS[device].title)]
    reasons += [finding.seen for finding in best.outdated]
    reasons += [
        _("{name} does not fit: {lacks}", name=each.recipe.name, lacks=each.shortfall)
        for each in others
        if each.recipe.usual and each.shortfall
    ]
    equals = [each.recipe.name for each in others if each.rank == best.rank]
    return join("; ", (*reasons, *([_("equivalent: {equals}", equals=join(", ", equals))] if equals else [])))
