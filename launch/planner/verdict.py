"""Decide whether a job fits: compare the phases of every stage with the card; estimate host memory and disk space."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from envcheck.core.messages import NOTHING, Message, _, fill, join, mark
from launch.memory import GIB, intervals, meter, offloaded, open_inputs, phases, pinned_blocks, quantised, uncertainty
from launch.memory.phases import Phase
from launch.memory.planned_job import PlannedJob, Recompute
from launch.memory.stage_parts import build_stage_parts, count_trained_params
from launch.planner.card_memory import CardMemory

LEAST_SPREAD = 0.02  # of the need: smaller changes by inputs that were not given are not shown
FITS, NOT, UNTOLD = "fits", "does-not-fit", "unknown"


@dataclass(frozen=True)
class OpenSpread:
    """Tensors of the fullest card in bytes over the other values of an input that was not given."""

    what: Message
    settings: str
    low: float
    high: float


@dataclass(frozen=True)
class LaunchPlan:
    """The verdict on a job with its reason.  Sizes are bytes of one card.

    `phases` are tensors only, `shown` is the peak as the job's meter reads it, `deciding` the phase with the peak.
    `usable` is available for tensors, `low` and `high` bound their need for the verdict.  `interval` holds both bounds
    and published readings (launch/memory/intervals.py); bounds in the reason are its ends.  `standing` remains after a
    step.  `host` and `disk` are bytes per node.  `spreads` are the inputs that were not given, with the job's need for
    each of their values.  `limit` is named in the reason as "up to", None if it is not.  `cards` are those of a real
    machine, empty for a described one; `parted`: MIG divides them into instances of unknown size.
    """

    job: PlannedJob
    verdict: str
    reason: Message
    phases: tuple[Phase, ...]
    shown: Phase
    deciding: Phase
    usable: float
    low: float
    high: float
    interval: tuple[float, float]
    standing: float
    host: float
    disk: float
    spreads: tuple[OpenSpread, ...]
    limit: float | None = None
    cards: tuple[CardMemory, ...] = ()
    parted: bool = False

    @property
    def need_gib(self) -> float:
        """The peak of tensors, GiB."""
        return self.deciding.total / GIB

    @property
    def reading_gib(self) -> float:
        """The peak as the job's meter reads it, GiB."""
        return self.shown.total / GIB

    @property
    def is_sure(self) -> bool:
        """Whether the whole interval agrees with a verdict of FITS or NOT."""
        low, high = self.interval
        return {FITS: high <= self.usable, NOT: low > self.usable}.get(self.verdict, True)

    @property
    def outside(self) -> tuple[tuple[str, float], ...]:
        """Memory of the card beside the tensors in the deciding phase: workspace, cache, context, use when idle."""
        return phases.apply_meter(replace(self.job, meter="smi"), self.deciding).terms[len(self.deciding.terms) :]

    @property
    def deciding_label(self) -> Message:
        """Phase and stage of the peak."""
        return self.label_phase(self.deciding)

    def label_phase(self, phase: Phase) -> Message:
        """Return the phase's name, with its stage if there are several."""
        name = fill(phase.name)
        return name if self.job.layout.pp == 1 else _("{phase}, stage {stage}", phase=name, stage=phase.stage)


def evaluate_job(job: PlannedJob) -> LaunchPlan:
    """Return the plan of a job on cards as it describes them."""
    all_phases = tuple(p for stage in list_stages(job) for p in phases.list_phases(job, stage))
    deciding = max(all_phases, key=lambda p: p.total)
    low, high = estimate_band(job, all_phases)
    watched = [p for p in all_phases if not job.last_rank or p.stage == job.layout.pp - 1]
    usable = meter.usable_bytes(job)
    spreads = tuple(list_spreads(job, deciding.total))
    span = (
        min((one.low for one in spreads), default=deciding.total),
        max((one.high for one in spreads), default=deciding.total),
    )
    verdict = judge_need(job, low, high, usable, spreads)
    plan = LaunchPlan(
        job=job,
        verdict=verdict,
        reason=NOTHING,
        phases=all_phases,
        shown=max((phases.apply_meter(job, p) for p in watched), key=lambda p: p.total),
        deciding=deciding,
        usable=usable,
        low=low,
        high=high,
        interval=find_interval(job, span, (low, high)),
        standing=max(
            phases.bytes_after_step(job, build_stage_parts(job, p.stage)) for p in watched if p.name == phases.PHASES[0]
        ),
        host=host_memory_bytes(job),
        disk=disk_bytes(job),
        spreads=spreads,
        limit=find_limit(job, span[1], high, usable) if verdict == FITS else None,
    )
    return replace(plan, reason=REASONS[verdict](plan))


def find_interval(job: PlannedJob, span: tuple[float, float], band: tuple[float, float]) -> tuple[float, float]:
    """Return the need of tensors in bytes between which published readings lie, at least the share `Residuals.inside`.

    `span`: from the least to the largest need for other values of inputs that were not given; `band` is in it as well.
    """
    factors = intervals.find_tensor_residuals(job)
    return min(factors.low * span[0], band[0]), max(factors.high * span[1], band[1])


def reading_interval(plan: LaunchPlan) -> tuple[float, float]:
    """Return the interval of `LaunchPlan.reading_gib` in GiB, at most the card for what fits on it.

    It holds the readings of published sources (launch/memory/intervals.py), for each value of the inputs that were not
    given.
    """
    job, factors, reading = plan.job, intervals.find_residuals(plan.job), plan.reading_gib
    least, most = find_range(
        job, reading, lambda other: evaluate_job(replace(other, open_inputs=frozenset())).reading_gib
    )
    low, high = factors.low * least, factors.high * most
    return low, min(high, job.memory_gib) if reading < job.memory_gib else high


def find_range(job: PlannedJob, given: float, measure: Callable[[PlannedJob], float]) -> tuple[float, float]:
    """Return the least and most of what is measured: `given` of the job, and of other values of its open inputs."""
    others = [measure(other) for _one, some in open_inputs.list_alternatives(job) for other in some]
    return min([given, *others]), max([given, *others])


def list_open_spreads(plan: LaunchPlan) -> Iterator[OpenSpread]:
    """Yield the inputs that were not given and change the need by more than 2 %."""
    least = LEAST_SPREAD * plan.deciding.total
    yield from (one for one in plan.spreads if one.high - one.low > least)


def list_spreads(job: PlannedJob, need: float) -> Iterator[OpenSpread]:
    """Yield the inputs that were not given, with the job's `need` and those for their other values."""
    for one, others in open_inputs.list_alternatives(job):
        needs = [find_peak(other) for other in others]
        yield OpenSpread(one.what, one.settings, min(need, *needs), max(need, *needs))


def find_excess(spreads: Iterable[OpenSpread], usable: float) -> OpenSpread | None:
    """Return the input that was not given with the largest need, if that exceeds `usable`."""
    most = max(spreads, key=lambda one: one.high, default=None)
    return most if most and most.high > usable else None


def find_relief(spreads: Iterable[OpenSpread], usable: float) -> OpenSpread | None:
    """Return the input that was not given with the least need, if that is available."""
    least = min(spreads, key=lambda one: one.low, default=None)
    return least if least and least.low <= usable else None


def find_peak(job: PlannedJob) -> float:
    """Return the peak of tensors of the fullest card, bytes."""
    return max(p.total for stage in list_stages(job) for p in phases.list_phases(job, stage))


def find_limit(job: PlannedJob, most: float, high: float, usable: float) -> float | None:
    """Return the bytes of tensors that a reading seldom exceeds (launch/memory/intervals.py).

    At least `high`, and `most`, the largest need for any value of inputs that were not given.  None without evidence,
    or if it exceeds `usable`.
    """
    factor = intervals.find_limit_factor(job)
    if factor is None or high > usable:
        return None
    limit = max(high, factor * most)
    return limit if limit <= usable else None


def does_fit(job: PlannedJob) -> bool:
    """Whether the verdict of `evaluate_job` is FITS; faster, it stops at the first stage that needs too much."""
    if saves_before_sharding(job):
        return False
    usable = (meter.usable_bytes(job) - uncertainty.context_excess(job)) / unmodelled_factor(job)
    return _fits_as_planned(job, usable) and not find_excess(list_spreads(job, 0.0), meter.usable_bytes(job))


def _fits_as_planned(job: PlannedJob, usable: float) -> bool:
    doubted = (job, replace(job, flash=False)) if job.framework.flash_doubtful and job.flash else (job,)
    return all(
        uncertainty.upper_bound(one, p) * unmodelled_factor(job) <= usable
        for stage in list_stages(job)
        for one in doubted
        for p in phases.list_phases(one, stage)
    )


def list_stages(job: PlannedJob) -> range | tuple[int, ...]:
    """Return the stages that can differ: the first two, the last two, and those where the number of layers changes."""
    pp = job.layout.pp
    if pp <= 4:
        return range(pp)
    edge = job.model.layers % pp
    return tuple(sorted({0, 1, pp - 2, pp - 1, max(0, edge - 1), min(edge, pp - 1)}))


def estimate_band(job: PlannedJob, all_phases: tuple[Phase, ...]) -> tuple[float, float]:
    """Return the lower and upper bound of the need, in bytes.

    For a framework that is known to keep less than its modules suggest, the lower bound is that of full recompute.
    """
    low = max(uncertainty.lower_bound(job, p) for p in all_phases)
    if job.framework.hidden_recompute and job.layout.ep > 1 and job.recompute.kind == "none":
        spare = replace(job, recompute=Recompute("full"))
        low = max(
            uncertainty.lower_bound(job, p) for stage in list_stages(spare) for p in phases.list_phases(spare, stage)
        )
    if quantised.is_lifted(job):  # a trainer may skip PEFT's preparation and keep the residual stream in 16 bit
        bare = replace(job, framework=replace(job.framework, lift=2.0))
        low = max(
            uncertainty.lower_bound(bare, p) for stage in list_stages(bare) for p in phases.list_phases(bare, stage)
        )
    high = max(uncertainty.upper_bound(job, p) for p in all_phases)
    if job.framework.flash_doubtful and job.flash:
        dense = replace(job, flash=False)
        high = max(
            high,
            *(
                uncertainty.upper_bound(dense, p)
                for stage in list_stages(dense)
                for p in phases.list_phases(dense, stage)
            ),
        )
    return low / unmodelled_factor(job), high * unmodelled_factor(job)


def unmodelled_factor(job: PlannedJob) -> float:
    """Return the factor of uncertainty for a model with layers that are estimated as attention.

    19 such classes of transformers 5 come to 0.6 to 1.8 times their real size, only Mamba 2 and HRM to three times.
    """
    return 2.0 if job.model.foreign else 1.0


def saves_before_sharding(job: PlannedJob) -> bool:
    """Whether PEFT copies modules to save before they are sharded: published attempts ran out of memory."""
    return bool(job.adapter.saved) and job.sharding in ("zero3", "fsdp")


def judge_need(job: PlannedJob, low: float, high: float, usable: float, spreads: Sequence[OpenSpread]) -> str:
    """Return the verdict: FITS if `high` fits, NOT if `low` does not, else UNTOLD.

    Either way with what the context may differ by.  UNTOLD as well if another value of an input that was not given
    decides otherwise.
    """
    if low > usable + uncertainty.context_saving(job):
        return UNTOLD if find_relief(spreads, usable) else NOT
    if high > usable - uncertainty.context_excess(job) or saves_before_sharding(job):
        return UNTOLD
    return UNTOLD if find_excess(spreads, usable) else FITS


def describe_place(plan: LaunchPlan) -> Message:
    """Return the deciding phase, with its stage if there are several, as the subject of a reason."""
    name = fill(plan.deciding.name)
    return name if plan.job.layout.pp == 1 else _("{phase} on stage {stage}", phase=name, stage=plan.deciding.stage)


def describe_lack(plan: LaunchPlan) -> Message:
    """Return the reason of NOT: the least need if that is too much, else the expected one."""
    where = describe_place(plan)
    if not plan.job.length_known:
        where = _("{where} (samples of {length} tokens)", where=where, length=plan.job.seq_len)
    if plan.is_sure:
        return _(
            "{where} needs at least {low_gib:.1f} GiB; {usable_gib:.1f} GiB is available",
            where=where,
            low_gib=plan.interval[0] / GIB,
            usable_gib=plan.usable / GIB,
        )
    return _(
        "{where} needs about {need_gib:.1f} GiB; {usable_gib:.1f} GiB is available, "
        "and {low_gib:.1f} GiB may be enough",
        where=where,
        need_gib=plan.need_gib,
        usable_gib=plan.usable / GIB,
        low_gib=plan.interval[0] / GIB,
    )


def describe_room(plan: LaunchPlan) -> Message:
    """Return the reason of FITS: the need, and the limit where there is one, or the end of the interval beyond it."""
    values = {"where": describe_place(plan), "need_gib": plan.need_gib, "usable_gib": plan.usable / GIB}
    if not plan.is_sure:
        return _(
            "{where} needs about {need_gib:.1f} of {usable_gib:.1f} GiB, but {high_gib:.1f} GiB is possible",
            high_gib=plan.interval[1] / GIB,
            **values,
        )
    if plan.limit is None:
        return _("{where} needs about {need_gib:.1f} of {usable_gib:.1f} GiB", **values)
    return _(
        "{where} needs {need_gib:.1f}, up to {high_gib:.1f} of {usable_gib:.1f} GiB",
        high_gib=plan.limit / GIB,
        **values,
    )


def describe_doubt(plan: LaunchPlan) -> Message:
    """Return the reason of UNTOLD."""
    job, where = plan.job, describe_place(plan)
    if saves_before_sharding(job):
        return _("PEFT copies modules to save before sharding; published attempts ran out of memory")
    excess = find_excess(plan.spreads, plan.usable) if plan.high <= plan.usable else None
    relief = find_relief(plan.spreads, plan.usable) if plan.low > plan.usable else None
    if spread := excess or relief:
        return _(
            "{where} needs about {need_gib:.1f} of {usable_gib:.1f} GiB, but {high_gib:.1f} GiB with another value of: "
            "{what} ({settings})",
            where=where,
            need_gib=plan.need_gib,
            usable_gib=plan.usable / GIB,
            high_gib=(spread.high if excess else spread.low) / GIB,
            what=spread.what,
            settings=join(", ", spread.settings.split(", ")),
        )
    open_term = (
        _("{foreign} layers", foreign=job.model.foreign)
        if job.model.foreign
        else fill(
            uncertainty.find_widest_term(job, plan.deciding) if plan.low <= plan.usable < plan.high else mark("context")
        )
    )
    return _(
        "{where} needs about {need_gib:.1f} of {usable_gib:.1f} GiB, {low_gib:.1f} to {high_gib:.1f} GiB is possible; "
        "least certain: {term}",
        where=where,
        need_gib=plan.need_gib,
        low_gib=plan.interval[0] / GIB,
        high_gib=plan.interval[1] / GIB,
        usable_gib=plan.usable / GIB,
        term=open_term,
    )


REASONS: dict[str, Callable[[LaunchPlan], Message]] = {FITS: describe_room, NOT: describe_lack, UNTOLD: describe_doubt}


def host_memory_bytes(job: PlannedJob) -> float:
    """Return the host memory of the fullest node in bytes: the larger of loading, and offloading plus saving.

    Loading: each card's share of the checkpoint passes through host memory. Offload: the node's shards
    (launch/memory/offloaded.py). Saving: ZeRO-3 and FSDP collect 2 N on rank 0
    (stage3_gather_16bit_weights_on_model_save; FULL_STATE_DICT with rank0_only).
    """
    per_node = min(job.layout.cards, job.device.cards_per_node)
    fullest = max((build_stage_parts(job, stage) for stage in list_stages(job)), key=lambda parts: parts.states.total)
    kept, away = fullest.states, offloaded.offloaded_bytes(job, fullest.states, fullest.trained)
    collected = 2.0 * job.model.params if job.trains_all and job.sharding in ("zero3", "fsdp") else 0.0
    return max(per_node * away + collected, per_node * kept.weights)


def host_memory_limit(job: PlannedJob, host: float) -> float:
    """Return the upper bound of `host_memory_bytes`: with all that is offloaded in pinned blocks of powers of two."""
    per_node = min(job.layout.cards, job.device.cards_per_node)
    trained = max(build_stage_parts(job, stage).trained for stage in list_stages(job))
    return host + per_node * pinned_blocks.pinned_surplus_bytes(job, trained)


def disk_bytes(job: PlannedJob) -> float:
    """Return the disk space per node in bytes: the 16-bit weights, and the node's share of one full checkpoint.

    A checkpoint has 16-bit weights and fp32 states, or those of the adapters.
    """
    n = float(job.model.params)
    nodes = -(-job.layout.cards // job.device.cards_per_node)
    if job.trains_all:
        return 2.0 * n + (2.0 + job.precision.master + job.precision.moments) * n / nodes
    each = job.layout.tp * sum(count_trained_params(job, stage) for stage in range(job.layout.pp))
    return 2.0 * n + job.framework.adapter * each / nodes
