"""Accelerators of which no check said anything: a machine that has them is never ready."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from envcheck.core.facts import Facts
from envcheck.core.findings import unknown
from envcheck.core.model import Finding, Status
from probes.host import network_schemas

NAME = "devices.present"  # in whose place it is told
SHOWN = 4
SILENT = (Status.NOT_APPLICABLE, Status.BLOCKED)


def with_unjudged(facts: Facts, found: list[Finding]) -> list[Finding]:
    """The findings, and one for each kind of cards that none of them judges."""
    added = [replace(finding, name=NAME) for finding in (*_of_vendors(facts, found), *_of_strangers(facts))]
    places = {finding.device for finding in added}
    kept = [f for f in found if f.name != NAME or f.device not in places] if added else found
    return [*kept, *added]


def _of_vendors(facts: Facts, found: Iterable[Finding]) -> Iterator[Finding]:
    """Cards whose vendor has a record, where all that looks at them was left out."""
    judged = {finding.device for finding in found if finding.status not in SILENT}
    for v in facts.vendors:
        if v.name not in judged:
            words = "Leave none of the areas out that look at cards: driver, devices."
            seen = f"no check judged the cards of {v.vendor.title}"
            yield replace(unknown(seen, words, "envcheck doctor"), device=v.name)


def _of_strangers(facts: Facts) -> Iterator[Finding]:
    """Accelerators whose vendor has no record.

    They do not matter where other cards are trained on, or where the processor is asked for.
    """
    strange = network_schemas.strange_cards(facts) if facts.device == "auto" and not facts.vendors else {}
    if strange:
        listed = ", ".join(f"{place} ({ids})" for place, ids in list(strange.items())[:SHOWN])
        words = "Install the package that adds their vendor to envcheck, or choose the processor."
        seen = f"accelerators of a vendor that envcheck does not know: {listed}"
        yield unknown(seen, words, "envcheck doctor --device cpu")
