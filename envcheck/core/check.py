"""A line of the table of checks: a judge, and what a person may want to know of it before it runs."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.findings import CardJudge, Judge
from envcheck.core.model import Finding


class VersionTables(Protocol):
    """What a vendor's check may ask of the tables of versions, which stand above the vendors."""

    def find_bad(
        self,
        pairs: Iterable[tuple[str, str]],
        known: Mapping[str, str | None],
        evidence: tuple[str, ...],
        *commands: str,
    ) -> Finding | None:
        """The finding of the first pair of components that the tables call known bad, at these versions."""

    def wants_newer(self, v: VendorFacts, own: Finding) -> Finding:
        """`own`, which follows from driver.version where that tells that the driver is too old."""


VersionJudge = Callable[[Facts, VendorFacts, VersionTables], Iterator[Finding]]


class Cost(str, enum.Enum):
    """What a check costs the machine: nothing worth a word, seconds of waiting, or work on the cards themselves."""

    INSTANT = "instant"
    SECONDS = "seconds"
    DISTURBS = "disturbs the cards"


@dataclass(frozen=True)
class Check:
    """One line of the table.

    A check has either `judge` (once a machine), or `judge_card` or `judge_versions` (once for each vendor in `vendors`,
    which the table fills in: all accelerators whose records do not exclude it, or the vendor in whose folder it
    stands).  `needs_devices` skips it when the tool lists none; `of_job` runs it only when a job is named.  `rule` says
    which status when, `fix` what to do about it, in general; a finding says it for the machine.  `frameworks` and
    `models` are those that it matters to; none: to all.  A vendor's check stands in the table `before` the one of that
    name, else at the end of its area.
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
        return self.name.partition(".")[0]

    @property
    def says(self) -> str:
        return ((self.judge or self.judge_card or self.judge_versions).__doc__ or "").strip()

    @property
    def is_of_cards(self) -> bool:
        """Whether it is judged for each vendor whose cards are here."""
        return self.judge is None

    @property
    def applies_to(self) -> str:
        whom = "the named job" if self.of_job else ", ".join(self.vendors) or "every machine"
        return ", ".join((whom, *self.frameworks, *self.models))


def of_machine(name: str, judge: Judge, **told: Any) -> Check:
    """Judged once, whatever cards there are."""
    return Check(name, judge=judge, **told)


def of_vendor(name: str, judge: CardJudge, **told: Any) -> Check:
    """Judged for each vendor whose cards are in the machine."""
    return Check(name, judge_card=judge, **told)


def of_devices(name: str, judge: CardJudge, **told: Any) -> Check:
    """As `of_vendor`, where the vendor's tool lists devices."""
    return Check(name, judge_card=judge, needs_devices=True, **told)


def of_versions(name: str, judge: VersionJudge, **told: Any) -> Check:
    """As `of_vendor`, by the tables of versions, which the judge is given."""
    return Check(name, judge_versions=judge, **told)


def of_job(name: str, judge: Judge, source: str = "the recipe", **told: Any) -> Check:
    """Judged when a job is named."""
    return Check(name, judge=judge, source=source, of_job=True, **told)
