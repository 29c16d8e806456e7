"""Will it fit: the phases of every stage against the card, with a verdict, its reason, and what host and disk need."""

from __future__ import annotations

from dataclasses import dataclass, replace

from launch.memory import GIB, bounds, meter, phases, quantised
from launch.memory.job import PlannedJob, Recompute
from launch.memory.parts import beside, parts
from launch.memory.phases import Phase
from launch.planner.card_memory import CardMemory

FITS, NOT, UNTOLD = "fits", "does-not-fit", "cannot-tell"


@dataclass(frozen=True)
class LaunchPlan:
    """The answer.  `phases` hold tensors alone, `shown` the same as the job's meter reads them; bytes of one card.

    `usable` is what tensors may take, `low` and `high` the band of what they need, `deciding` the phase that decides.
    `cards` are those of the machine at hand, none of a described one; `parted`: MIG cuts them, into what is not told.
    """

    job: PlannedJob
    verdict: str
    reason: str
    phases: tuple[Phase, ...]
    shown: Phase
    deciding: Phase
    usable: float
    low: float
    high: float
    standing: float
    host: float
    disk: float
    cards: tuple[CardMemory, ...] = ()
    parted: bool = False

    @property
    def need_gib(self) -> float:
        """Tensors at the peak."""
        return self.deciding.total / GIB

    @property
    def reading_gib(self) -> float:
        return self.shown.total / GIB

    @property
    def outside(self) -> tuple[tuple[str, float], ...]:
        """What the deciding phase takes of the card beside its tensors: scratch, cache, context, what others hold."""
        return phases.read(replace(self.job, meter="smi"), self.deciding).terms[len(self.deciding.terms) :]

    @property
    def where(self) -> str:
        return f"{self.deciding.name}, stage {self.deciding.stage}"


def answer(job: PlannedJob) -> LaunchPlan:
    """The whole answer for one job on cards as it describes them."""
    every = tuple(p for stage in stages(job) for p in phases.phases(job, stage))
    deciding = max(every, key=lambda p: p.total)
    low, high = band(job, every)
    watched = [p for p in every if not job.last_rank or p.stage == job.layout.pp - 1]
    usable = meter.usable(job)
    verdict, reason = judge(job, low, high, usable, deciding)
    return LaunchPlan(
        job=job,
        verdict=verdict,
        reason=reason,
        phases=every,
        shown=max((phases.read(job, p) for p in watched), key=lambda p: p.total),
        deciding=deciding,
        usable=usable,
        low=low,
        high=high,
        standing=max(phases.standing(job, parts(job, p.stage)) for p in watched if p.name == phases.PHASES[0]),
        host=host(job),
        disk=disk(job),
    )


def fits(job: PlannedJob) -> bool:
    """Whether `answer` would say that it fits, without the answer: the first stage that needs too much ends it."""
    if job.adapter.saved and job.sharding in ("zero3", "fsdp"):
        return False
    usable = meter.usable(job) / foreign(job)
    doubted = (job, replace(job, flash=False)) if job.framework.flash_doubtful and job.flash else (job,)
    return all(
        bounds.high(one, p) * foreign(job) <= usable
        for stage in stages(job)
        for one in doubted
        for p in phases.phases(one, stage)
    )


def stages(job: PlannedJob) -> range | tuple[int, ...]:
    """Stages that can differ: the first two, the last two, and where the uneven share of layers ends."""
    pp = job.layout.pp
    if pp <= 4:
        return range(pp)
    edge = job.model.layers % pp
    return tuple(sorted({0, 1, pp - 2, pp - 1, max(0, edge - 1), min(edge, pp - 1)}))


def band(job: PlannedJob, every: tuple[Phase, ...]) -> tuple[float, float]:
    """The least and the most that is needed.  Where a framework is known to keep less than its modules say, without
    saying how much, the least is that of full recompute."""
    low = max(bounds.low(job, p) for p in every)
    if job.framework.hidden_recompute and job.layout.ep > 1 and job.recompute.kind == "none":
        spare = replace(job, recompute=Recompute("full"))
        low = max(bounds.low(job, p) for stage in stages(spare) for p in phases.phases(spare, stage))
    if quantised.lifted(job):  # a trainer may leave PEFT's preparation out, and the residual stream in 16 bit
        bare = replace(job, framework=replace(job.framework, lift=2.0))
        low = max(bounds.low(bare, p) for stage in stages(bare) for p in phases.phases(bare, stage))
    high = max(bounds.high(job, p) for p in every)
    if job.framework.flash_doubtful and job.flash:
        dense = replace(job, flash=False)
        high = max(high, *(bounds.high(dense, p) for stage in stages(dense) for p in phases.phases(dense, stage)))
    return low / foreign(job), high * foreign(job)


def foreign(job: PlannedJob) -> float:
    """By how many times a model may be off of whose layers some are not modelled: counted as attention, 19 such classes
    of transformers 5 come to 0.6 to 1.8 times their size, Mamba 2 and HRM alone to three times."""
    return 2.0 if job.model.foreign else 1.0


def judge(job: PlannedJob, low: float, high: float, usable: float, deciding: Phase) -> tuple[str, str]:
    """fits where the most fits, does not fit where the least does not, else it cannot be told."""
    roomy = usable + bounds.CONTEXT_SHARE * meter.context(job)
    where = f"{deciding.name} on stage {deciding.stage}"
    if low > roomy:
        if not job.length_known:
            where += f", if samples are as long as {job.seq_len} tokens"
        return NOT, f"{where} needs at least {low / GIB:.1f} GiB of {usable / GIB:.1f}"
    if job.adapter.saved and job.sharding in ("zero3", "fsdp"):
        return UNTOLD, "PEFT copies modules to save before sharding; published attempts ran out of memory"
    if high <= usable:
        return FITS, f"{where} needs {deciding.total / GIB:.1f}, at most {high / GIB:.1f} GiB of {usable / GIB:.1f}"
    open_term = f"{job.model.foreign} layers" if job.model.foreign else bounds.widest(job, deciding)
    return UNTOLD, (
        f"{where} needs {low / GIB:.1f} to {high / GIB:.1f} GiB of {usable / GIB:.1f}; least certain: {open_term}"
    )


def host(job: PlannedJob) -> float:
    """Bytes of memory of the fullest node: shards that are being read, or its cards' offloaded states and what is put
    together to be saved, whichever is more.

    Reading: each card's share of the checkpoint passes through host memory; where every process loads the whole model
    that is 2 N for each.  Offload: 12 bytes per parameter of the node's shards.  Saving: ZeRO-3 and FSDP collect
    2 N on rank 0 (stage3_gather_16bit_weights_on_model_save; FULL_STATE_DICT with rank0_only).
    """
    per_node = min(job.layout.cards, job.device.cards_per_node)
    kept = max((parts(job, stage).states for stage in stages(job)), key=lambda states: states.total)
    away = kept.optimizer * job.offload_share if {"optimizer", "tensorwise"} & job.offload else 0.0
    away += kept.weights + kept.adapters + kept.gradients if "params" in job.offload else 0.0
    reading = 2.0 * job.model.params if job.framework.loads_whole else kept.weights
    collected = 2.0 * job.model.params if job.trains_all and job.sharding in ("zero3", "fsdp") else 0.0
    return max(per_node * away + collected, per_node * reading)


def disk(job: PlannedJob) -> float:
    """Bytes per node: the weights in 16 bit, which every node reads, and the node's share of one full checkpoint
    (16-bit weights and fp32 states, or the adapters')."""
    n = float(job.model.params)
    nodes = -(-job.layout.cards // job.device.cards_per_node)
    if job.trains_all:
        return 2.0 * n + (2.0 + job.precision.master + job.precision.moments) * n / nodes
    each = job.layout.tp * sum(beside(job, stage) for stage in range(job.layout.pp))
    return 2.0 * n + job.framework.adapter * each / nodes
