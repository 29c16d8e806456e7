"""A line of the table of checks: a judge, and what a person may want to know of it before it runs."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

from envcheck.core.findings import CardJudge, Judge

ANY_CARD = ("npu", "iluvatar", "nvidia")
NPU, ILUVATAR, NVIDIA = ("npu",), ("iluvatar",), ("nvidia",)


class Cost(str, enum.Enum):
    """What a check costs the machine: nothing worth a word, seconds of waiting, or work on the cards themselves."""

    INSTANT = "instant"
    SECONDS = "seconds"
    DISTURBS = "disturbs the cards"


@dataclass(frozen=True)
class Check:
    """One line of the table.

    A check has either `judge` (once a machine) or `judge_card` (once for each vendor in `vendors`); `needs_devices`
    skips it when the tool lists none; `of_job` runs it only when a job is named.  `rule` says which severity when,
    `fix` what to do about it, in general; a finding says it for the machine.  `frameworks` and `models` are those
    that it matters to; none: to all.
    """

    name: str
    reads: str
    source: str
    rule: str = ""
    fix: str = ""
    cost: Cost = Cost.INSTANT
    judge: Judge | None = None
    judge_card: CardJudge | None = None
    vendors: tuple[str, ...] = ()
    frameworks: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    needs_devices: bool = False
    of_job: bool = False

    @property
    def area(self) -> str:
        return self.name.partition(".")[0]

    @property
    def says(self) -> str:
        return ((self.judge or self.judge_card).__doc__ or "").strip()

    @property
    def applies_to(self) -> str:
        whom = "the named job" if self.of_job else ", ".join(self.vendors) or "every machine"
        return ", ".join((whom, *self.frameworks, *self.models))


def of_machine(name: str, judge: Judge, **told: Any) -> Check:
    """Judged once, whatever cards there are."""
    return Check(name, judge=judge, **told)


def of_vendor(name: str, judge: CardJudge, vendors: tuple[str, ...] = ANY_CARD, **told: Any) -> Check:
    """Judged for each vendor whose cards are in the machine."""
    return Check(name, judge_card=judge, vendors=vendors, **told)


def of_devices(name: str, judge: CardJudge, vendors: tuple[str, ...] = ANY_CARD, **told: Any) -> Check:
    """As `of_vendor`, where the vendor's tool lists devices."""
    return Check(name, judge_card=judge, vendors=vendors, needs_devices=True, **told)


def of_job(name: str, judge: Judge, source: str = "the recipe", **told: Any) -> Check:
    """Judged when a job is named."""
    return Check(name, judge=judge, source=source, of_job=True, **told)
