"""What the stop rules look at: plain values of one moment."""

from __future__ import annotations

from dataclasses import dataclass

from launch.logs.eta import Mark
from launch.logs.step import TrainingStep


@dataclass(frozen=True)
class CardSample:
    """A device as its tool shows it; `label` is the tool's own number for it."""

    label: str
    used_mib: int | None = None
    total_mib: int | None = None
    percent: float | None = None  # of its computing units
    power_w: float | None = None
    temperature_c: float | None = None
    health: str | None = None
    ecc_uncorrected: int | None = None


@dataclass(frozen=True)
class CardSamples:
    """All cards at one moment of the monotonic clock; `cards` is empty where the tool did not tell, `why` not."""

    at: float
    cards: tuple[CardSample, ...] = ()
    why: str = ""


@dataclass(frozen=True)
class RunMoment:
    """One moment of a run, times on the monotonic clock.

    `before` are the cards as they were before the start, `samples` the latest ones that told something, newest last;
    `marks` when the latest numbered steps came; `grew_at` when a log last grew; `busy_cores` of the host's processors
    were kept busy by the run's processes lately; `host_free` is the part of the host's memory that is available;
    `mine` are the labels of the job's own cards, empty where nobody can tell which those are; `worked_at` is when a
    worker was last seen alive, else when the run began, None where nobody can tell; `fallen` is the launcher's uncaught
    error that ends its log, line by line.
    """

    now: float
    began_at: float
    grew_at: float
    steps: tuple[TrainingStep, ...] = ()
    marks: tuple[Mark, ...] = ()
    first_step_at: float | None = None
    stepped_at: float | None = None
    before: CardSamples | None = None
    samples: tuple[CardSamples, ...] = ()
    busy_cores: float | None = None
    host_free: float | None = None
    mine: frozenset[str] = frozenset()
    worked_at: float | None = None
    fallen: tuple[str, ...] = ()
