"""What the named job requires, which devices of the machine it would use, and the evidence for that."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from envcheck.core.facts import Facts, VendorFacts, Wanted
from envcheck.core.findings import figures, not_told
from envcheck.core.model import Device, Finding, Remedy

RECIPES = "envcheck recipes"
CPU = ("cpu", "")


def get_demand(facts: Facts) -> Wanted:
    """What the job requires; its checks run only when a job is named."""
    assert facts.wanted is not None, "job checks run when a job is named"
    return facts.wanted


def find_vendor(facts: Facts) -> VendorFacts | None:
    """The cards of the job's own vendor."""
    return next((v for v in facts.vendors if v.name == get_demand(facts).device), None)


def list_candidates(wanted: Wanted, v: VendorFacts) -> list[tuple[int, Device]]:
    """The devices on which the job would run, with their places in the tool's list: the selected ones, else any."""
    return [(place, d) for place, d in enumerate(v.devices) if wanted.devices is None or place in wanted.devices]


def count_needed(wanted: Wanted, candidates: Iterable[object]) -> int:
    """How many of the candidates must do; that there are fewer than the job needs is job.cards' to say."""
    there = sum(1 for _ in candidates)
    return there if wanted.cards is None else min(wanted.cards, there)


def tell_unanswered(facts: Facts, collector: str, area: str) -> Finding:
    """UNKNOWN, with how the question ended; doctor's area shows what the machine answered."""
    words = Remedy("See what the machine answered.", (f"envcheck doctor --only {area}",))
    return replace(not_told(facts, f"ask {collector}"), remedy=words)


def cite_recipe(facts: Facts, **values: object) -> tuple[str, ...]:
    """Evidence: what the recipe says."""
    return figures(f"recipe {get_demand(facts).recipe}", **values)
