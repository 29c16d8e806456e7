"""The hardware tests as rows of the check table: listed, selected and waived like other checks, run only with
--deep."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from envcheck.core.check import Check, Cost
from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.findings import skipped_because
from envcheck.core.messages import _
from envcheck.core.model import Finding
from envcheck.vendors.names import accelerator_names

AREA = "deep"
DeepFindings = Mapping[str, Mapping[str, list[Finding]]]  # by vendor, then by the check's name


@dataclass(frozen=True)
class DeepCheckRow:
    """The texts of one test for the check table; `says` is the property that it verifies."""

    name: str
    says: str
    reads: str
    rule: str
    fix: str
    source: str


ROWS = (
    DeepCheckRow(
        "deep.cards",
        _("The framework finds every card, and no card is in use."),
        "the vendor tool's process list; the framework's device count",
        "FAIL if the framework does not start or finds another number of cards; UNKNOWN for a card in use",
        "Wait until the card is free, or repair the plugin.",
        "cards in use are not tested",
    ),
    DeepCheckRow(
        "deep.matmul",
        _("Each card computes correct bf16 matrix products, as fast as the others."),
        "a product on each card, compared with the CPU's in float32; large products, timed",
        "FAIL for wrong values, a hang or a crash; WARN for a slow card, or a rate below the published one",
        "Take a card with wrong results out of service; check temperature, power limit and clocks of a slow one.",
        "bf16 has 8 bits of precision; cards of one type differ by 8 % on average (arXiv 2208.11035)",
    ),
    DeepCheckRow(
        "deep.memory",
        _("Data written to a card's memory is read back correctly."),
        "patterns in a share of the free memory",
        "FAIL if a block differs when read back; WARN if less memory can be allocated than the tool shows as free",
        "Take the card out of service.",
        "two complementary patterns, so that each bit is tested as 0 and as 1",
    ),
    DeepCheckRow(
        "deep.copy",
        _("Copies between host and card are correct, and as fast as on the other cards."),
        "copies from host to card and back",
        "FAIL if the data changes; WARN for a slow card, or a rate below that of its slot",
        "Check the PCIe slot: fewer lanes or an older generation than the card supports.",
        "the cards of one host are in equal slots",
    ),
    DeepCheckRow(
        "deep.peer",
        _("Copies between cards are correct over each link type."),
        "one pair of cards for each link type in the topology",
        "FAIL if the data changes; WARN if a link reaches less than half of its published rate",
        "Check the state of the link, and whether peer access is enabled.",
        "the vendors' rates of one link, in launch/catalogue/links.toml",
    ),
    DeepCheckRow(
        "deep.allreduce",
        _("All-reduce across all cards gives correct sums."),
        "an all-reduce, started by the framework's own launcher",
        "FAIL for wrong sums, a hang or a crash; WARN for a bus bandwidth below half of that of the links",
        "Check the links, the ports of the collectives, and the version of the plugin.",
        "nccl-tests, doc/PERFORMANCE.md: bus bandwidth = 2(n-1)/n × data / time",
    ),
)
NAMES = tuple(row.name for row in ROWS)


def make_checks(found: DeepFindings | None = None, cards: bool = True) -> tuple[Check, ...]:
    """Return the checks with these findings; `cards` is False if the host has no cards and the CPU was tested."""
    return tuple(_make_check(row, found or {}, cards) for row in ROWS)


def _make_check(row: DeepCheckRow, found: DeepFindings, cards: bool) -> Check:
    def of_card(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
        yield from found.get(v.name, {}).get(row.name) or [skipped_because("deep.cards")]

    def of_machine(facts: Facts) -> Iterator[Finding]:
        yield from found.get("cpu", {}).get(row.name) or [skipped_because("deep.cards")]

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
