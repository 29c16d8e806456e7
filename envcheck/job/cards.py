"""Which cards of a machine a job gets, by the numbers of their device nodes.  Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from envcheck.core.facts import Facts
from envcheck.core.vendor import Vendor
from envcheck.vendors import VENDORS
from installers.recipes.recipe import Recipe


def count_cards(recipe: Recipe, device: str) -> int | None:
    """The most cards of one node that a job of the recipe takes on this device; None where none of them says."""
    jobs = [job for job in recipe.jobs if (job.device or recipe.device) == device]
    counts = [recipe.hardware.cards if job.cards is None else job.cards for job in jobs]
    return max((count for count in counts if count is not None), default=None)


def has_device(facts: Facts, device: str) -> bool:
    """The machine has such cards, seen by its tool, on its bus or in /dev; each machine has a processor."""
    seen = [vendor for vendor in facts.vendors if vendor.name == device]
    return device == "cpu" or any(vendor.devices or vendor.pci or vendor.nodes for vendor in seen)


def select_card_ids(recipe: Recipe, facts: Facts, device: str, count: int | None) -> tuple[int, ...]:
    """`count` cards: of those that are present, or that the recipe's container lists where it means certain ones.

    Where fewer are present, the lowest numbers that are free stand for the others; `count` None takes all.
    """
    known = _candidates(recipe, facts, VENDORS[device])
    if count is None:
        return known
    free = [number for number in range(count) if number not in known]
    return (*known, *free)[:count]


def card_numbers(nodes: Iterable[str], vendor: Vendor) -> tuple[int, ...]:
    """The numbers of the vendor's device nodes among these paths; /dev/davinci3 is 3, /dev/davinci_manager none."""
    pattern = re.escape(vendor.node_pattern).replace(re.escape("[0-9]*"), r"(\d{1,6})")
    return tuple(int(found[1]) for path in nodes if vendor.node_pattern and (found := re.fullmatch(pattern, path)))


def card_node(number: int, vendor: Vendor) -> str:
    """The path of one card's device node."""
    return vendor.node_pattern.replace("[0-9]*", str(number))


def _candidates(recipe: Recipe, facts: Facts, vendor: Vendor) -> tuple[int, ...]:
    """A list of the first N cards means any N; another one means those that it names."""
    listed = card_numbers(recipe.container.devices if recipe.container else (), vendor)
    if listed != tuple(range(len(listed))):
        return listed
    found = next((v for v in facts.vendors if v.name == vendor.name), None)
    return tuple(sorted(card_numbers(found.nodes or (), vendor))) if found else ()
