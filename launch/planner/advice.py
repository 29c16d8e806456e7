"""What would make a job fit, cheapest in speed first; how much room is left where it does; the least cards."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from launch.memory.job import PlannedJob
from launch.planner import legal, speed, verdict
from launch.planner.reductions import ORDER, Way, cheap, largest, options, single
from launch.planner.verdict import LaunchPlan

DEAR = frozenset({"--seq-len", "--cards", "--quant"})  # other samples, other hardware, another base


@dataclass(frozen=True)
class Change:
    """One way to make it fit: words, what to add to the command, the plan, and the step's time over the job's own, for
    the same number of tokens."""

    what: str
    said: Mapping[str, str]
    plan: LaunchPlan
    slower: float

    @property
    def options(self) -> str:
        return options(self.said)

    @property
    def cost(self) -> tuple[bool, bool, float, int]:
        """Another base last, more cards before that; then by speed, where shorter samples are no gain."""
        slower = max(1.0, self.slower) if "--seq-len" in self.said else self.slower
        return "--quant" in self.said, "--cards" in self.said, round(slower, 2), rank(self.said)


def rank(said: Iterable[str]) -> int:
    """Of the last option that has one: --grad-accum only follows --micro-batch."""
    return max(ORDER.index(option) for option in said if option in ORDER)


def fitting(job: PlannedJob, limit: int = 8) -> tuple[Change, ...]:
    """Changes after which it fits, the least loss of speed first: single ones; pairs where no single one does but a
    dear one; three together where no cheap pair does, either."""
    ways = [way for way in single(job) if not any(legal.refusals(way[2]))]
    few = [way for way in ways if not DEAR & way[1].keys()]
    found = _fit(ways, job)
    if all(DEAR & change.said.keys() for change in found):  # two cheap changes before such a one, if they do
        found += _fit(_pairs(few, cheap) if found else _pairs(ways, single), job)
    if all(DEAR & change.said.keys() for change in found):
        found += _fit(_hopeful(_pairs(_pairs(few, cheap), cheap)), job)
    return tuple(sorted(found, key=lambda change: change.cost)[:limit])


def _pairs(ways: Iterable[Way], more: Callable[[PlannedJob, int], Iterator[Way]]) -> Iterator[Way]:
    """Each way with one of `more` after it, each combination once."""
    for one, said, middle in ways:
        for two, again, last in more(middle, rank(said)):
            if not said.keys() & again.keys() and not any(legal.refusals(last)):
                yield f"{one}, and {two}", {**said, **again}, last


def _hopeful(ways: Iterable[Way]) -> Iterator[Way]:
    """Those of whose kind the last, which is the largest change, fits: three at once are too many to try them all."""
    kinds: dict[tuple[str, ...], list[Way]] = {}
    for way in ways:
        said = (f"{name} {value}" if name == "--offload" else name for name, value in way[1].items())
        kinds.setdefault(tuple(said), []).append(way)  # kinds of offload have no order
    for kind in kinds.values():
        if verdict.fits(kind[-1][2]):
            yield from kind


def _fit(ways: Iterable[Way], job: PlannedJob) -> list[Change]:
    """Of each kind the first that fits, which is the smallest change of it."""
    seen: dict[tuple[str, ...], Change] = {}
    for what, said, other in ways:
        kind = tuple(said)
        if kind not in seen and verdict.fits(other):
            seen[kind] = Change(what, said, verdict.answer(other), slower(job, other))
    return list(seen.values())


def slower(job: PlannedJob, other: PlannedJob) -> float:
    """The other's time over the job's for the same tokens: shorter samples are no faster training."""
    size = speed.samples(job)
    tokens = job.seq_len / other.seq_len
    return speed.step(other, size).total * tokens / speed.step(job, size).total


@dataclass(frozen=True)
class Room:
    """How far a job that fits could go: tokens, micro batch, and the least cards of its kind that hold it, with what to
    say for that (nothing where it has the least)."""

    seq_len: int
    micro_batch: int
    cards: int
    fewer: Mapping[str, str]


def room(job: PlannedJob) -> Room:
    top = job.model.max_positions or 1 << 20
    step = max(64, 2 * job.layout.cp * job.layout.tp)

    def long_fits(n: int) -> bool:
        return verdict.fits(replace(job, seq_len=n))

    def batch_fits(n: int) -> bool:
        return verdict.fits(replace(job, micro_batch=n))

    longest = largest(long_fits, job.seq_len, max(top, job.seq_len)) // step * step
    batch = largest(batch_fits, job.micro_batch, 4096)
    fewest = least_cards(job)
    return Room(max(longest, job.seq_len), batch, fewest.layout.cards, fewer(job, fewest))


def fewer(job: PlannedJob, least: PlannedJob) -> dict[str, str]:
    """What to add to the job's command for the least cards."""
    names = [n for n in ("cards", "pp", "ep") if getattr(job.layout, n) != getattr(least.layout, n)]
    return {f"--{n}": f"{getattr(least.layout, n)}" for n in names}


def least_cards(job: PlannedJob) -> PlannedJob:
    """The same job on the fewest cards: with these degrees, or fewer stages, expert ranks and replicas."""
    x = job.layout
    stages = range(1, x.pp + 1) if "pp" in job.framework.degrees else (x.pp,)
    ways = {
        (x.tp * pp * x.cp * replicas, pp, ep)
        for pp in stages
        for ep in legal.divisors(x.ep)
        for replicas in legal.divisors(x.replicas)
    }
    for cards, pp, ep in sorted(ways, key=lambda way: (way[0], -way[1], -way[2])):
        other = replace(job, layout=replace(x, pp=pp, ep=ep, cards=cards))
        if cards < x.cards and not any(legal.refusals(other)) and verdict.fits(other):
            return other
    return job
