"""Select the cards of a machine for a job, by the numbers of their device nodes.  Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from envcheck.core.facts import Facts
from envcheck.core.vendor import Vendor
from envcheck.vendors import VENDORS
from installers.recipes.recipe import Recipe


def count_cards(recipe: Recipe, device: str) -> int | None:
    """Return the most cards per node that a job of the recipe uses on this device; None if no job sets a number."""
    jobs = [job for job in recipe.jobs if (job.device or recipe.device) == device]
    counts = [recipe.hardware.cards if job.cards is None else job.cards for job in jobs]
    return max((count for count in counts if count is not None), default=None)


def has_device(facts: Facts, device: str) -> bool:
    """Whether the vendor tool, the bus or /dev shows such cards; "cpu" is always present."""
    matching = [vendor for vendor in facts.vendors if vendor.name == device]
    return device == "cpu" or any(vendor.devices or vendor.pci or vendor.nodes for vendor in matching)


def select_card_ids(recipe: Recipe, facts: Facts, device: str, count: int | None) -> tuple[int, ...]:
    """Return the numbers of `count` cards: those present, or the specific ones that the recipe's container lists.

    If fewer are present, the lowest unused numbers fill up the rest; `count` None returns all.
    """
    known = _list_candidates(recipe, facts, VENDORS[device])
    if count is None:
        return known
    free = [number for number in range(count) if number not in known]
    return (*known, *free)[:count]


def parse_card_numbers(nodes: Iterable[str], vendor: Vendor) -> tuple[int, ...]:
    """Return the numbers of the vendor's device nodes among paths: 3 for /dev/davinci3, none for davinci_manager."""
    pattern = re.escape(vendor.node_pattern).replace(re.escape("[0-9]*"), r"(\d{1,6})")
    return tuple(int(found[1]) for path in nodes if vendor.node_pattern and (found := re.fullmatch(pattern, path)))


def format_card_node(number: int, vendor: Vendor) -> str:
    """Return the path of one card's device node."""
    return vendor.node_pattern.replace("[0-9]*", str(number))


def _list_candidates(recipe: Recipe, facts: Facts, vendor: Vendor) -> tuple[int, ...]:
    """Return the numbers to choose from: those the container lists, but any present ones if it lists the first N."""
    listed = parse_card_numbers(recipe.container.devices if recipe.container else (), vendor)
    if listed != tuple(range(len(listed))):
        return listed
    found = next((v for v in facts.vendors if v.name == vendor.name), None)
    return tuple(sorted(parse_card_numbers(found.nodes or (), vendor))) if found else ()
