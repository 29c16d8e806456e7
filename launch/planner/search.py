"""Search the layouts that the framework accepts; rank those that fit by estimated step time."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace

from launch.memory import GIB, meter, parameter_shares
from launch.memory.planned_job import ParallelLayout, PlannedJob, Recompute
from launch.planner import NOT, LaunchPlan, layout_rules, speed, verdict
from launch.planner.option_words import SHARDING_NAMES, format_offload
from launch.planner.speed import StepTime

DEGREES = ("tp", "pp", "vpp", "ep", "cp")


@dataclass(frozen=True)
class LayoutResult:
    """A layout with its plan and the time of a step of `samples` samples."""

    plan: LaunchPlan
    step: StepTime
    samples: int
    is_requested: bool = False

    @property
    def tokens_per_second(self) -> float:
        """Tokens of all cards together."""
        return self.samples * self.plan.job.seq_len / self.step.total

    @property
    def name(self) -> str:
        """The layout as options."""
        return format_layout_options(self.plan.job)


def format_layout_options(job: PlannedJob) -> str:
    """Return the layout as options of `envcheck plan`."""
    x = job.layout
    parts = [f"--{n} {getattr(x, n)}" for n in DEGREES if getattr(x, n) > 1]
    parts += ["--no-sequence-parallel"] if x.tp > 1 and not job.splits_sequence else []
    parts += [f"--sharding {SHARDING_NAMES[job.sharding]}"] if job.sharding != "none" or x.dense_shards > 1 else []
    parts += [f"--offload {format_offload(job)}"] if job.offload else []
    parts += [f"--recompute {job.recompute.kind}", f"--micro-batch {job.micro_batch}"]
    parts += [f"--grad-accum {job.grad_accum}"] if job.grad_accum else []
    return " ".join(parts)


def list_degree_layouts(job: PlannedJob, held: Collection[str] = ()) -> Iterator[ParallelLayout]:
    """Yield layouts whose degrees divide heads, layers, experts and cards; tensor parallelism stays inside a node.

    The degrees in `held` are those of the job.
    """
    fixed = {name: getattr(job.layout, name) for name in DEGREES if name in held}
    m, cards, has = job.model, job.layout.cards, job.framework.degrees
    inside = job.device.cards_per_node
    tps = (
        [t for t in layout_rules.list_divisors(m.heads, m.kv_heads) if t <= inside and cards % t == 0]
        if "tp" in has
        else [1]
    )
    pps = [p for p in layout_rules.list_divisors(cards) if p <= m.layers] if "pp" in has else [1]
    eps = layout_rules.list_divisors(m.moe.experts) if m.moe and "ep" in has else [1]
    for tp in tps:
        for pp in pps:
            if cards % (tp * pp):
                continue
            for ep in eps:
                layout = ParallelLayout(tp, pp, 1, ep, None, 1, cards)
                is_held = all(getattr(layout, name) == value for name, value in fixed.items())
                if is_held and pp * ep * layout.expert_tp <= cards:
                    yield layout


def list_variants(job: PlannedJob, held: Collection[str] = ()) -> Iterator[PlannedJob]:
    """Yield the job with all layouts, sharding, recompute and offload, with micro batch 1; invalid ones are skipped."""
    offloads = [frozenset[str](), frozenset({"tensorwise" if job.framework.reload else "optimizer"})]
    offloads = [job.offload] if "offload" in held else offloads
    samples = speed.samples_per_step(job)
    for layout in list_degree_layouts(job, held):
        base = set_micro_batch(replace(job, layout=layout), 1, samples)
        if base is None:
            continue
        schemes = job.framework.sharded if layout.dense_shards > 1 else ("none",)
        for sharding in schemes:
            first = replace(base, sharding=sharding)
            if any(layout_rules.list_refusals(first)) or is_hopeless(replace(first, offload=offloads[-1])):
                continue
            for away in offloads:
                plain = replace(first, offload=away)
                if not is_hopeless(plain) and not any(layout_rules.list_refusals(plain)):
                    yield from (replace(plain, recompute=Recompute(kind)) for kind in ("none", "full"))


def is_hopeless(job: PlannedJob) -> bool:
    """Whether the model states of the largest stage alone exceed the card: a quick test before the full plan."""
    held = max(parameter_shares.compute_parameter_share(job.model, job.layout, s).total for s in {0, job.layout.pp - 1})
    divided = job.layout.dense_shards if job.sharding in ("zero3", "fsdp") else 1
    each = job.precision.weight if not job.quant else 0.5
    if job.trains_all:
        each += job.precision.gradient / (job.layout.dense_shards if job.sharding in ("zero2", "zero3", "fsdp") else 1)
        if not job.offload:
            each += (job.precision.master + job.precision.moments) / (
                job.layout.dense_shards if job.sharding != "none" else 1
            )
    return held * each / divided > meter.usable_bytes(job)


def search_layouts(job: PlannedJob, limit: int = 10, held: Collection[str] = ()) -> tuple[LayoutResult, ...]:
    """Return up to `limit` layouts that fit, fastest first, each in its fastest variant; every variant if the framework
    has one layout only.

    The requested layout is marked, and always included.  Degrees and offload in `held` are those of the job.
    """
    samples = speed.samples_per_step(job)
    timed = sorted(
        list_variants(job, held),
        key=lambda other: (speed.estimate_step(other, samples).total, len(format_layout_options(other))),
    )
    best: list[LayoutResult] = []
    is_only = len({other.layout for other in timed}) == 1
    done: set[ParallelLayout] = set()
    for other in timed:
        if other.layout in done and not is_only:
            continue
        if verdict.does_fit(other):
            done.add(other.layout)
            grown = verdict.evaluate_job(grow_micro_batch(other, samples))
            best.append(
                LayoutResult(grown, speed.estimate_step(grown.job, samples), samples, is_same_layout(grown.job, job))
            )
        if len(best) >= limit:
            break
    if not any(found.is_requested for found in best):
        best.append(LayoutResult(verdict.evaluate_job(job), speed.estimate_step(job, samples), samples, True))
    return tuple(sorted(best, key=lambda found: (found.plan.verdict == NOT, found.step.total)))


def find_smallest_layout(job: PlannedJob, held: Collection[str] = ()) -> PlannedJob:
    """Return the layout that needs the least memory, to show how far the job is from fitting."""
    ways = [job]
    for layout in list_degree_layouts(job, held):
        base = replace(job, layout=layout)
        schemes = job.framework.sharded if layout.dense_shards > 1 else ("none",)
        ways += [replace(base, sharding=scheme) for scheme in schemes]
    legal_ways = [way for way in ways if not any(layout_rules.list_refusals(way))]
    return min(legal_ways, key=verdict.find_peak, default=job)


def set_micro_batch(job: PlannedJob, micro_batch: int, samples: int) -> PlannedJob | None:
    """Return the job with this micro batch; if --grad-accum is given, adapted to keep `samples` per step.

    None if the samples cannot be divided.
    """
    each = job.layout.replicas * micro_batch
    if not job.grad_accum or samples % each == 0:
        return replace(job, micro_batch=micro_batch, grad_accum=job.grad_accum and samples // each)
    return None


def grow_micro_batch(job: PlannedJob, samples: int) -> PlannedJob:
    """Return the job with the micro batch doubled as long as that is faster and fits."""
    while job.layout.replicas * job.micro_batch * 2 <= samples:
        other = set_micro_batch(job, 2 * job.micro_batch, samples)
        if (
            other is None
            or speed.estimate_step(other, samples).total >= speed.estimate_step(job, samples).total * 0.999
        ):
            break
        if not verdict.does_fit(other):
            break
        job = other
    return job


def is_same_layout(one: PlannedJob, other: PlannedJob) -> bool:
    """Whether both jobs have the same degrees, sharding, offload, recompute and micro batch."""
    return (one.layout, one.sharding, one.offload, one.recompute, one.micro_batch) == (
        other.layout,
        other.sharding,
        other.offload,
        other.recompute,
        other.micro_batch,
    )


def find_pareto_front(found: Iterable[LayoutResult]) -> list[LayoutResult]:
    """Return the Pareto front: layouts for which no other is both faster and smaller."""
    least = float("inf")
    kept = []
    for one in sorted(found, key=lambda f: f.step.total):
        if one.plan.deciding.total < least:
            least = one.plan.deciding.total
            kept.append(one)
    return kept


def peak_gib(result: LayoutResult) -> float:
    """Return the memory peak of tensors on the fullest card, GiB."""
    return result.plan.deciding.total / GIB
