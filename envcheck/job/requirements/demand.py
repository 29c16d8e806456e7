"""The requirements of the job, the devices it would use, and the evidence."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from envcheck.core.facts import Facts, MachineRequirements, VendorFacts
from envcheck.core.findings import quote_values, report_unanswered
from envcheck.core.messages import _
from envcheck.core.model import Device, Finding, diagnose

RECIPES = "envcheck recipes"
CPU = ("cpu", "")


def get_demand(facts: Facts) -> MachineRequirements:
    """Return the requirements of the job; job checks run only if there is one."""
    assert facts.wanted is not None, "job checks need a job"
    return facts.wanted


def find_vendor(facts: Facts) -> VendorFacts | None:
    """Return the facts of the job's vendor, None if it has no cards here."""
    return next((v for v in facts.vendors if v.name == get_demand(facts).device), None)


def list_candidates(wanted: MachineRequirements, v: VendorFacts) -> list[tuple[int, Device]]:
    """Return (position in the tool's list, device) of the selected devices, else of all of the vendor's."""
    return [(place, d) for place, d in enumerate(v.devices) if wanted.devices is None or place in wanted.devices]


def count_needed(wanted: MachineRequirements, candidates: Iterable[object]) -> int:
    """Return how many candidates must pass; job.cards reports it if there are fewer than the job needs."""
    there = sum(1 for _unused in candidates)
    return there if wanted.cards is None else min(wanted.cards, there)


def tell_unanswered(facts: Facts, collector: str, area: str) -> Finding:
    """Return an UNKNOWN finding with the failure of `collector`; `area` is the doctor area that shows the details."""
    words = diagnose(_("Check what the machine reports."), f"envcheck doctor --only {area}")
    return replace(report_unanswered(facts, f"ask {collector}"), remedy=words)


def cite_recipe(facts: Facts, **values: object) -> tuple[str, ...]:
    """Return values of the recipe as evidence."""
    return quote_values(f"recipe {get_demand(facts).recipe}", **values)
