"""The input of the stop rules: plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from launch.logs.eta import Mark
from launch.logs.training_step import TrainingStep


@dataclass(frozen=True)
class CardSample:
    """Values of one card; `label` is its number in the vendor's tool."""

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
    """Values of all cards at one time (monotonic clock); without `cards`, `why` is the reason."""

    at: float
    cards: tuple[CardSample, ...] = ()
    why: str = ""


@dataclass(frozen=True)
class RunMoment:
    """The state of a run at one time; all times are of the monotonic clock.

    `before` are the cards before the start, `samples` the latest successful samples, newest last.  `marks` are times of
    the latest numbered steps; `grew_at` is the time of the last log output.  `busy_cores` is the number of CPU cores
    recently used by the run's processes; `host_free` the available share of host memory.  `mine` are the labels of the
    job's cards, empty if unknown.  `worked_at` is the time when a worker was last alive, else of the start, None if
    unknown.  `launcher_error` are the lines of the launcher's uncaught error.  `vocabulary` is that of the model.
    `rank_step_s` are the seconds per step by worker of this node; `cards` are their cards, `first_rank` is the rank of
    the first one, and `host` is this host.
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
    launcher_error: tuple[str, ...] = ()
    vocabulary: int | None = None
    rank_step_s: Mapping[int, float] = field(default_factory=dict)
    cards: tuple[str, ...] = ()
    first_rank: int = 0
    host: str = ""
