"""The deep tests as lines of the table of checks: listed, named and waived like any other, run when asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from envcheck.core.check import Check, Cost
from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.findings import follows
from envcheck.core.model import Finding
from envcheck.vendors.names import accelerator_names

AREA = "deep"
Found = Mapping[str, Mapping[str, list[Finding]]]  # by vendor, then by the check's name


@dataclass(frozen=True)
class Row:
    name: str
    says: str
    reads: str
    rule: str
    fix: str
    source: str


ROWS = (
    Row(
        "deep.cards",
        "The framework sees each card, and nobody works on them.",
        "the vendor's list of processes; the framework's count of devices",
        "FAIL when it does not start or sees another number; UNKNOWN for a card in use",
        "Wait for who is on the card, or mend the plugin.",
        "a card that somebody works on is not tested",
    ),
    Row(
        "deep.matmul",
        "Each card multiplies matrices in bf16 rightly, as fast as the others.",
        "a product on each card, beside the processor's in float32, and large ones, timed",
        "FAIL for wrong values, a hang, a crash; WARN for a slow card, or one below what its maker publishes",
        "Take a card that is wrong out of use; look at the temperature, power limit and clocks of a slow one.",
        "bf16 keeps 8 bits; cards of a kind differ by 8 % in the mean (arXiv 2208.11035)",
    ),
    Row(
        "deep.memory",
        "What is written into a card's memory is read back.",
        "patterns in a share of the free memory",
        "FAIL when a piece reads back otherwise; WARN when less than the tool shows as free can be had",
        "Take the card out of use.",
        "both patterns, so that each bit was once on and once off",
    ),
    Row(
        "deep.copy",
        "Copies between host and card arrive whole, as fast as on the other cards.",
        "copies up and down",
        "FAIL when they change on the way; WARN for a slow card, or one below its slot's rate",
        "Look at the slot: fewer lanes or an older generation than the card has.",
        "cards of one machine sit in slots alike",
    ),
    Row(
        "deep.peer",
        "Copies between cards arrive whole, over each kind of link.",
        "a pair of cards for each kind of link in the topology",
        "FAIL when they change on the way; WARN when one link carries less than half of what it is made for",
        "Look at the link's state, and whether peer access is on.",
        "the makers' figures of one link, in launch/catalogue/links.toml",
    ),
    Row(
        "deep.allreduce",
        "All cards add up to the right sums.",
        "an all-reduce, started by the framework's own launcher",
        "FAIL for wrong sums, a hang, a crash; WARN for a bus bandwidth below half of the links'",
        "Look at the links, the ports that the collectives open, and the plugin's version.",
        "nccl-tests, doc/PERFORMANCE.md: bus bandwidth is 2(n-1)/n of the data by time",
    ),
)
NAMES = tuple(row.name for row in ROWS)


def checks(found: Found | None = None, cards: bool = True) -> tuple[Check, ...]:
    """With what was found; `cards` unless the machine has none, and the processor was tested."""
    return tuple(_check(row, found or {}, cards) for row in ROWS)


def _check(row: Row, found: Found, cards: bool) -> Check:
    def of_card(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
        yield from found.get(v.name, {}).get(row.name) or [follows("deep.cards")]

    def of_machine(facts: Facts) -> Iterator[Finding]:
        yield from found.get("cpu", {}).get(row.name) or [follows("deep.cards")]

    of_card.__doc__ = of_machine.__doc__ = row.says
    return Check(
        row.name,
        reads=row.reads,
        source=row.source,
        rule=row.rule,
        fix=row.fix,
        cost=Cost.DISTURBS,
        judge=None if cards else of_machine,
        judge_card=of_card if cards else None,
        vendors=accelerator_names() if cards else (),
    )
