"""Find changes that make a job fit, and the headroom of a job that fits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from envcheck.core.messages import _
from launch.catalogue import framework_options
from launch.memory.planned_job import PlannedJob
from launch.planner import layout_rules, speed, verdict
from launch.planner.reductions import (
    ORDER,
    JobChange,
    find_largest,
    format_options,
    list_cheap_changes,
    list_single_changes,
)
from launch.planner.verdict import LaunchPlan

# Shorter samples, more hardware, another base model, adapters instead of full training.
COSTLY_OPTIONS = frozenset({"--seq-len", "--cards", "--quant", "--method"})


@dataclass(frozen=True)
class CommandLimits:
    """What the command itself sets, so that it takes no option for it.

    `nodes` of the command, None without.  `of_job`: options for values that the file of an own job sets.  `hardware`:
    options that describe the cards of --hosts, which take no number of cards; empty without hosts.
    """

    nodes: int | None = None
    of_job: frozenset[str] = frozenset()
    hardware: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class LayoutChange:
    """A change after which the job fits: description, the options of the change itself, and the new plan.

    `slower` is its step time divided by that of the job, for the same number of tokens.  `layout` are the options of a
    layout that the command left out: any option of a layout on the command line replaces all of it.  `is_in_job`: the
    file of the job sets the value, and the command refuses the option.
    """

    what: str
    added: Mapping[str, str]
    plan: LaunchPlan
    slower: float
    layout: Mapping[str, str] = field(default_factory=dict)
    is_in_job: bool = False

    @property
    def options(self) -> str:
        """The options to add to the command, which then plans exactly this job; "" if the job itself must change."""
        return "" if self.is_in_job else format_options(complete_options(self.added, self.layout))

    @property
    def settings(self) -> list[str]:
        """The change as settings of the framework, as far as they are known."""
        job = self.plan.job
        return framework_options.list_framework_options(job.framework.name, self.added, job.adapter.rank, job.sharding)

    @property
    def cost(self) -> tuple[bool, bool, bool, float, int]:
        """Sort key: another method last, another base model, more cards; else by slowdown, without gain by length."""
        slower = max(1.0, self.slower) if "--seq-len" in self.added else self.slower
        method, quant, cards = "--method" in self.added, "--quant" in self.added, "--cards" in self.added
        return method, quant, cards, round(slower, 2), rank_options(self.added)


def complete_options(added: Mapping[str, str], layout: Mapping[str, str]) -> dict[str, str]:
    """Return the options of a change, and then those of the layout that it keeps."""
    return {**added, **{name: value for name, value in layout.items() if name not in added}}


def keep_layout(
    changes: Iterable[LayoutChange], layout: Mapping[str, str], limits: CommandLimits
) -> tuple[LayoutChange, ...]:
    """Return the changes with the options of the layout that the command left out, as the command accepts them."""
    return tuple(
        replace(
            change,
            layout={**describe_cards(change.added, change.plan.job, limits), **layout},
            what=(
                _("{change}, in place of the hosts", change=change.what)
                if "--cards" in change.added and limits.hardware
                else change.what
            ),
            is_in_job=not limits.of_job.isdisjoint(change.added),
        )
        for change in changes
    )


def keep_layout_of_fewest(left: Headroom, layout: Mapping[str, str], limits: CommandLimits) -> Headroom:
    """Return the headroom with complete options for the fewest cards."""
    if not left.fewer:
        return left
    return replace(
        left, fewer=complete_options(left.fewer, {**describe_cards(left.fewer, left.least, limits), **layout})
    )


def describe_cards(added: Mapping[str, str], job: PlannedJob, limits: CommandLimits) -> dict[str, str]:
    """Return the options that another number of cards needs in addition to --cards.

    --nodes if the command has it: the fewest nodes with equal shares.  The hardware in place of --hosts.
    """
    if "--cards" not in added:
        return {}
    if limits.hardware:
        return dict(limits.hardware)
    if limits.nodes is None:
        return {}
    cards = job.layout.cards
    least = -(-cards // job.device.cards_per_node)
    return {"--nodes": f"{next(count for count in range(least, cards + 1) if cards % count == 0)}"}


def rank_options(options: Iterable[str]) -> int:
    """Return the highest position in ORDER; --grad-accum has none, it only accompanies --micro-batch."""
    return max(ORDER.index(option) for option in options if option in ORDER)


def find_fitting_changes(job: PlannedJob, limit: int = 8) -> tuple[LayoutChange, ...]:
    """Return up to `limit` changes that make the job fit, in the order of LayoutChange.cost.

    Single changes; pairs if every fitting single one is costly; three at once if no cheap pair fits either.
    """
    ways = [way for way in list_single_changes(job) if _is_possible(way[1], way[2])]
    few = [way for way in ways if not COSTLY_OPTIONS & way[1].keys()]
    found = _select_fitting(ways, job)
    if all(COSTLY_OPTIONS & change.added.keys() for change in found):  # prefer two cheap changes to a costly one
        found += _select_fitting(
            _pair_changes(few, list_cheap_changes) if found else _pair_changes(ways, list_single_changes), job
        )
    if all(COSTLY_OPTIONS & change.added.keys() for change in found):
        found += _select_fitting(
            _select_promising(_pair_changes(_pair_changes(few, list_cheap_changes), list_cheap_changes)), job
        )
    return tuple(sorted(found, key=lambda change: change.cost)[:limit])


def _is_possible(options: Mapping[str, str], job: PlannedJob) -> bool:
    """Whether the framework has settings for the options, and accepts the job."""
    return framework_options.has_settings(job.framework.name, options) and not any(layout_rules.list_refusals(job))


def _pair_changes(
    ways: Iterable[JobChange], more: Callable[[PlannedJob, int], Iterator[JobChange]]
) -> Iterator[JobChange]:
    """Yield each change combined with one of `more`, each combination once."""
    for one, options, middle in ways:
        for two, further, last in more(middle, rank_options(options)):
            if not options.keys() & further.keys() and _is_possible(further, last):
                yield _("{one}, {two}", one=one, two=two), {**options, **further}, last


def _select_promising(ways: Iterable[JobChange]) -> Iterator[JobChange]:
    """Yield the changes of each kind whose largest fits; there are too many triples to try them all."""
    kinds: dict[tuple[str, ...], list[JobChange]] = {}
    for way in ways:
        key = (f"{name} {value}" if name == "--offload" else name for name, value in way[1].items())
        kinds.setdefault(tuple(key), []).append(way)  # values of --offload have no order
    for kind in kinds.values():
        if verdict.does_fit(kind[-1][2]):
            yield from kind


def _select_fitting(ways: Iterable[JobChange], job: PlannedJob) -> list[LayoutChange]:
    """Return the first fitting change of each kind, which is the smallest one."""
    fitting: dict[tuple[str, ...], LayoutChange] = {}
    for what, options, other in ways:
        kind = tuple(options)
        if kind not in fitting and verdict.does_fit(other):
            fitting[kind] = LayoutChange(what, options, verdict.evaluate_job(other), compare_step_time(job, other))
    return list(fitting.values())


def compare_step_time(job: PlannedJob, other: PlannedJob) -> float:
    """Return the step time of `other` divided by that of `job`, for the same number of tokens."""
    size = speed.samples_per_step(job)
    tokens = job.seq_len / other.seq_len
    return speed.estimate_step(other, size).total * tokens / speed.estimate_step(job, size).total


@dataclass(frozen=True)
class Headroom:
    """The largest `seq_len` and `micro_batch`, each alone, and the fewest `cards` with which a job still fits.

    `fewer` are the options for the fewest cards, empty if the job uses them already; `least` is the job on them.
    """

    seq_len: int
    micro_batch: int
    cards: int
    fewer: Mapping[str, str]
    least: PlannedJob


def find_headroom(job: PlannedJob) -> Headroom:
    """Return the headroom of a job that fits."""
    top = job.model.max_positions or 1 << 20
    step = max(64, 2 * job.layout.cp * job.layout.tp)

    def long_fits(n: int) -> bool:
        return verdict.does_fit(replace(job, seq_len=n))

    def batch_fits(n: int) -> bool:
        return verdict.does_fit(replace(job, micro_batch=n))

    longest = find_largest(long_fits, job.seq_len, max(top, job.seq_len)) // step * step
    batch = find_largest(batch_fits, job.micro_batch, 4096)
    fewest = find_least_cards(job)
    return Headroom(
        max(longest, job.seq_len), batch, fewest.layout.cards, list_fewer_cards_options(job, fewest), fewest
    )


def list_fewer_cards_options(job: PlannedJob, least: PlannedJob) -> dict[str, str]:
    """Return the options to add to the command for the fewest cards."""
    names = [n for n in ("cards", "pp", "ep") if getattr(job.layout, n) != getattr(least.layout, n)]
    return {f"--{n}": f"{getattr(least.layout, n)}" for n in names}


def find_least_cards(job: PlannedJob) -> PlannedJob:
    """Return the job on the fewest cards that fit, with the same or fewer stages, expert ranks and replicas."""
    x = job.layout
    stages = range(1, x.pp + 1) if "pp" in job.framework.degrees else (x.pp,)
    ways = {
        (x.tp * pp * x.cp * replicas, pp, ep)
        for pp in stages
        for ep in layout_rules.list_divisors(x.ep)
        for replicas in layout_rules.list_divisors(x.replicas)
    }
    for cards, pp, ep in sorted(ways, key=lambda way: (way[0], -way[1], -way[2])):
        other = replace(job, layout=replace(x, pp=pp, ep=ep, cards=cards))
        if cards < x.cards and not any(layout_rules.list_refusals(other)) and verdict.does_fit(other):
            return other
    return job
