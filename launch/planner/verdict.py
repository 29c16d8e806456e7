"""Decide whether a job fits: compare the phases of every stage with the card; estimate host memory and disk space."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from envcheck.core.messages import Message, _, fill, join
from launch.memory import GIB, intervals, meter, offloaded, open_inputs, phases, quantised, uncertainty
from launch.memory.phases import Phase
from launch.memory.planned_job import PlannedJob, Recompute
from launch.memory.stage_parts import build_stage_parts, count_trained_params
from launch.planner.card_memory import CardMemory

PINNED_FACTOR = 1.5
LEAST_SPREAD = 0.02  # of the need: smaller changes by inputs that were not given are not shown
FITS, NOT, UNTOLD = "fits", "does-not-fit", "unknown"


@dataclass(frozen=True)
class LaunchPlan:
    """The verdict on a job with its reason.  Sizes are bytes of one card.

    `phases` are tensors only, `shown` is the peak as the job's meter reads it, `deciding` the phase with the peak.
    `usable` is available for tensors, `low` and `high` bound their need.  `standing` remains after a step.  `host` and
    `disk` are bytes per node.  `limit` is named in the reason as "up to", None if it is not.  `cards` are those of a
    real machine, empty for a described one; `parted`: MIG divides them into instances of unknown size.
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
    standing: float
    host: float
    disk: float
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
    def interval(self) -> tuple[float, float]:
        """The need of tensors in bytes between which published readings lie, as many as `Residuals.inside` has.

        From the least to the largest need for other values of inputs that were not given.
        """
        factors = intervals.find_tensor_residuals(self.job)
        low, high = find_range(self.job, self.deciding.total, find_peak)
        return factors.low * low, factors.high * high

    @property
    def outside(self) -> tuple[tuple[str, float], ...]:
        """Memory of the card beside the tensors in the deciding phase: workspace, cache, context, use when idle."""
        return phases.apply_meter(replace(self.job, meter="smi"), self.deciding).terms[len(self.deciding.terms) :]

    @property
    def deciding_label(self) -> Message:
        """Phase and stage of the peak."""
        return _("{phase}, stage {stage}", phase=fill(self.deciding.name), stage=self.deciding.stage)


def evaluate_job(job: PlannedJob) -> LaunchPlan:
    """Return the plan of a job on cards as it describes them."""
    all_phases = tuple(p for stage in list_stages(job) for p in phases.list_phases(job, stage))
    deciding = max(all_phases, key=lambda p: p.total)
    low, high = estimate_band(job, all_phases)
    watched = [p for p in all_phases if not job.last_rank or p.stage == job.layout.pp - 1]
    usable = meter.usable_bytes(job)
    limit = find_limit(job, deciding.total, high, usable)
    verdict, reason = judge_need(job, low, high, usable, deciding, limit)
    return LaunchPlan(
        job=job,
        verdict=verdict,
        reason=reason,
        phases=all_phases,
        shown=max((phases.apply_meter(job, p) for p in watched), key=lambda p: p.total),
        deciding=deciding,
        usable=usable,
        low=low,
        high=high,
        standing=max(
            phases.bytes_after_step(job, build_stage_parts(job, p.stage)) for p in watched if p.name == phases.PHASES[0]
        ),
        host=host_memory_bytes(job),
        disk=disk_bytes(job),
        limit=limit if verdict == FITS else None,
    )


def reading_interval(plan: LaunchPlan) -> tuple[float, float]:
    """Return the interval of `LaunchPlan.reading_gib` in GiB, at most the card for what fits on it.

    It holds the readings of published sources (launch/memory/intervals.py), for each value of the inputs that were not
    given.
    """
    job, factors, reading = plan.job, intervals.find_residuals(plan.job), plan.reading_gib
    least, most = find_range(job, reading, lambda other: evaluate_job(other).reading_gib)
    low, high = factors.low * least, factors.high * most
    return low, min(high, job.memory_gib) if reading < job.memory_gib else high


def find_range(job: PlannedJob, given: float, measure: Callable[[PlannedJob], float]) -> tuple[float, float]:
    """Return the least and most of what is measured: `given` of the job, and of other values of its open inputs."""
    others = [measure(other) for _one, some in open_inputs.list_alternatives(job) for other in some]
    return min([given, *others]), max([given, *others])


@dataclass(frozen=True)
class OpenSpread:
    """Tensors of the fullest card in bytes over the other values of an input that was not given."""

    what: Message
    settings: str
    low: float
    high: float


def list_open_spreads(plan: LaunchPlan) -> Iterator[OpenSpread]:
    """Yield the inputs that were not given and change the need by more than 2 %."""
    need = plan.deciding.total
    yield from (one for one in list_spreads(plan.job, need) if one.high - one.low > LEAST_SPREAD * need)


def list_spreads(job: PlannedJob, need: float) -> Iterator[OpenSpread]:
    """Yield the inputs that were not given, with the job's `need` and those for their other values."""
    for one, others in open_inputs.list_alternatives(job):
        needs = [find_peak(other) for other in others]
        yield OpenSpread(one.what, one.settings, min(need, *needs), max(need, *needs))


def find_excess(job: PlannedJob, need: float, usable: float) -> OpenSpread | None:
    """Return the input that was not given with the largest need, if that exceeds `usable`."""
    most = max(list_spreads(job, need), key=lambda one: one.high, default=None)
    return most if most and most.high > usable else None


def find_peak(job: PlannedJob) -> float:
    """Return the peak of tensors of the fullest card, bytes."""
    return max(p.total for stage in list_stages(job) for p in phases.list_phases(job, stage))


def find_limit(job: PlannedJob, need: float, high: float, usable: float) -> float | None:
    """Return the bytes of tensors that a reading seldom exceeds (launch/memory/intervals.py).

    At least `high`, and the need for any other value of an input that was not given.  None without evidence, or if it
    exceeds `usable`.
    """
    factor = intervals.find_limit_factor(job)
    if factor is None or high > usable:
        return None
    limit = max(high, factor * find_range(job, need, find_peak)[1])
    return limit if limit <= usable else None


def does_fit(job: PlannedJob) -> bool:
    """Whether the verdict of `evaluate_job` is FITS; faster, it stops at the first stage that needs too much."""
    if job.adapter.saved and job.sharding in ("zero3", "fsdp"):
        return False
    usable = meter.usable_bytes(job) / unmodelled_factor(job)
    return _fits_as_planned(job, usable) and not find_excess(job, 0.0, meter.usable_bytes(job))


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


def judge_need(
    job: PlannedJob, low: float, high: float, usable: float, deciding: Phase, limit: float | None = None
) -> tuple[str, Message]:
    """Return the verdict and its reason: FITS if `high` fits, NOT if `low` does not, else UNTOLD.

    UNTOLD as well if it fits as planned, and does not for another value of an input that was not given.
    `limit`: as `find_limit` returns it, for the reason of FITS.
    """
    roomy = usable + uncertainty.CONTEXT_SHARE * meter.context_bytes(job)
    where = _("{phase} on stage {stage}", phase=fill(deciding.name), stage=deciding.stage)
    if low > roomy:
        if not job.length_known:
            where = _("{where} (samples of {length} tokens)", where=where, length=job.seq_len)
        return NOT, _(
            "{where} needs at least {low_gib:.1f} GiB; {usable_gib:.1f} GiB is available",
            where=where,
            low_gib=low / GIB,
            usable_gib=usable / GIB,
        )
    if job.adapter.saved and job.sharding in ("zero3", "fsdp"):
        return UNTOLD, _("PEFT copies modules to save before sharding; published attempts ran out of memory")
    if high <= usable and (spread := find_excess(job, deciding.total, usable)):
        return UNTOLD, _(
            "{where} needs about {need_gib:.1f} of {usable_gib:.1f} GiB, but {high_gib:.1f} GiB with another value of: "
            "{what} ({settings})",
            where=where,
            need_gib=deciding.total / GIB,
            usable_gib=usable / GIB,
            high_gib=spread.high / GIB,
            what=spread.what,
            settings=join(", ", spread.settings.split(", ")),
        )
    if high <= usable:
        if limit is None:
            return FITS, _(
                "{where} needs about {need_gib:.1f} of {usable_gib:.1f} GiB",
                where=where,
                need_gib=deciding.total / GIB,
                usable_gib=usable / GIB,
            )
        return FITS, _(
            "{where} needs {need_gib:.1f}, up to {high_gib:.1f} of {usable_gib:.1f} GiB",
            where=where,
            need_gib=deciding.total / GIB,
            high_gib=limit / GIB,
            usable_gib=usable / GIB,
        )
    open_term = (
        _("{foreign} layers", foreign=job.model.foreign)
        if job.model.foreign
        else fill(uncertainty.find_widest_term(job, deciding))
    )
    return UNTOLD, _(
        "{where} needs {low_gib:.1f} to {high_gib:.1f} of {usable_gib:.1f} GiB; least certain: {term}",
        where=where,
        low_gib=low / GIB,
        high_gib=high / GIB,
        usable_gib=usable / GIB,
        term=open_term,
    )


def host_memory_bytes(job: PlannedJob) -> float:
    """Return the host memory of the fullest node in bytes: the larger of loading, and offloading plus saving.

    Loading: each card's share of the checkpoint passes through host memory; if every process loads the whole model,
    2 N each.  Offload: the node's shards (launch/memory/offloaded.py).  Saving: ZeRO-3 and FSDP collect 2 N on rank 0
    (stage3_gather_16bit_weights_on_model_save; FULL_STATE_DICT with rank0_only).
    """
    per_node = min(job.layout.cards, job.device.cards_per_node)
    fullest = max((build_stage_parts(job, stage) for stage in list_stages(job)), key=lambda parts: parts.states.total)
    kept, away = fullest.states, offloaded.offloaded_bytes(job, fullest.states, fullest.trained)
    reading = 2.0 * job.model.params if job.framework.loads_whole else kept.weights
    collected = 2.0 * job.model.params if job.trains_all and job.sharding in ("zero3", "fsdp") else 0.0
    return max(per_node * away + collected, per_node * reading)


def host_memory_limit(job: PlannedJob, host: float) -> float:
    """Return the upper bound of `host_memory_bytes`: torch pins offloaded blocks in sizes of powers of two.

    DeepSpeed's estimator has the same factor (runtime/zero/stage3.py, additional_buffer_factor).
    """
    return PINNED_FACTOR * host if job.offload and job.sharding.startswith("zero") else host


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
