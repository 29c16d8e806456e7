"""A row of the check table: the function that evaluates a check, and the metadata that users can see before it runs."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.findings import CardJudge, Judge
from envcheck.core.messages import Message, _, join
from envcheck.core.model import Finding


class VersionTables(Protocol):
    """What a vendor's check needs from the version tables, which are in a higher layer than the vendors."""

    def find_bad(
        self,
        pairs: Iterable[tuple[str, str]],
        known: Mapping[str, str | None],
        evidence: tuple[str, ...],
        *commands: str,
    ) -> Finding | None:
        """Return the finding for the first pair of components with a known incompatibility at these versions, or
        None."""

    def suppress_if_driver_too_old(self, v: VendorFacts, own: Finding) -> Finding:
        """Return `own`, suppressed by driver.version if that check already reports that the driver is too old."""


VersionJudge = Callable[[Facts, VendorFacts, VersionTables], Iterator[Finding]]


class Cost(str, enum.Enum):
    """The cost of running a check: negligible, seconds of waiting, or a load on the devices."""

    INSTANT = "instant"
    SECONDS = "seconds"
    DISTURBS = "disturbs the cards"


@dataclass(frozen=True)
class Check:
    """One row of the check table.

    A check has either `judge` (runs once per host), or `judge_card` or `judge_versions` (runs once for each vendor in
    `vendors`; the table fills that in with all accelerator vendors whose records do not exclude the check, or with the
    vendor whose folder defines it). `needs_devices` skips the check if the vendor tool lists no device; `of_job` runs
    it only if a job is specified.  `rule` states which condition gives which status, and `fix` the general remedy; a
    finding gives the remedy for the host.  `frameworks` and `models` restrict the check to these; empty means all.
    `before` names the check that a vendor's check precedes in the table; by default it is appended to its area.
    """

    name: str
    reads: str
    source: str
    rule: str = ""
    fix: str = ""
    cost: Cost = Cost.INSTANT
    judge: Judge | None = None
    judge_card: CardJudge | None = None
    judge_versions: VersionJudge | None = None
    vendors: tuple[str, ...] = ()
    frameworks: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    before: str = ""
    needs_devices: bool = False
    of_job: bool = False

    @property
    def area(self) -> str:
        """The part of the name before the dot, such as `driver`."""
        return self.name.partition(".")[0]

    @property
    def description(self) -> str:
        """The property that the check verifies: the docstring of its judge."""
        return ((self.judge or self.judge_card or self.judge_versions).__doc__ or "").strip()

    @property
    def is_per_vendor(self) -> bool:
        """Whether the check runs once for each vendor found on the host."""
        return self.judge is None

    @property
    def applies_to(self) -> Message:
        """The vendors, frameworks and models that the check is for, as one line of text."""
        whom = _("the requested job") if self.of_job else join(", ", self.vendors) or _("every machine")
        return join(", ", (whom, *self.frameworks, *self.models))


def machine_check(name: str, judge: Judge, **options: Any) -> Check:
    """Return a check that runs once per host, whatever devices it has."""
    return Check(name, judge=judge, **options)


def vendor_check(name: str, judge: CardJudge, **options: Any) -> Check:
    """Return a check that runs once for each vendor found on the host."""
    return Check(name, judge_card=judge, **options)


def device_check(name: str, judge: CardJudge, **options: Any) -> Check:
    """Return a check like `vendor_check` that is skipped if the vendor tool lists no device."""
    return Check(name, judge_card=judge, needs_devices=True, **options)


def version_check(name: str, judge: VersionJudge, **options: Any) -> Check:
    """Return a check like `vendor_check` whose judge also receives the version tables."""
    return Check(name, judge_versions=judge, **options)


def job_check(name: str, judge: Judge, source: str = "the recipe", **options: Any) -> Check:
    """Return a check that runs only if a job is specified."""
    return Check(name, judge=judge, source=source, of_job=True, **options)
