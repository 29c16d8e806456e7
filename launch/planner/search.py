"""All layouts that the framework would accept, those that fit ranked by the time that a step should take."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from launch.memory import GIB, holdings, meter
from launch.memory.job import Layout, PlannedJob, Recompute
from launch.planner import NOT, LaunchPlan, legal, speed, verdict
from launch.planner.speed import StepTime
from launch.planner.words import SAID


@dataclass(frozen=True)
class Found:
    """One layout: its plan, the time of a step of so many samples, whether it is the asked one."""

    plan: LaunchPlan
    step: StepTime
    samples: int
    own: bool = False

    @property
    def tokens_per_second(self) -> float:
        return self.samples * self.plan.job.seq_len / self.step.total

    @property
    def name(self) -> str:
        return words(self.plan.job)


def words(job: PlannedJob) -> str:
    """The layout as options."""
    x = job.layout
    parts = [f"--{n} {getattr(x, n)}" for n in ("tp", "pp", "vpp", "ep", "cp") if getattr(x, n) > 1]
    parts += [f"--sharding {SAID[job.sharding]}"] if job.sharding != "none" or x.dense_shards > 1 else []
    parts += [f"--offload {'+'.join(sorted(job.offload))}"] if job.offload else []
    parts += [f"--recompute {job.recompute.kind}", f"--micro-batch {job.micro_batch}"]
    parts += [f"--grad-accum {job.grad_accum}"] if job.grad_accum else []
    return " ".join(parts)


def degrees(job: PlannedJob) -> Iterator[Layout]:
    """Degrees that divide heads, layers, experts and cards; tensor parallelism stays inside a node."""
    m, cards, has = job.model, job.layout.cards, job.framework.degrees
    inside = job.device.cards_per_node
    tps = [t for t in legal.divisors(m.heads, m.kv_heads) if t <= inside and cards % t == 0] if "tp" in has else [1]
    pps = [p for p in legal.divisors(cards) if p <= m.layers] if "pp" in has else [1]
    eps = legal.divisors(m.moe.experts) if m.moe and "ep" in has else [1]
    for tp in tps:
        for pp in pps:
            if cards % (tp * pp):
                continue
            for ep in eps:
                layout = Layout(tp, pp, 1, ep, None, 1, cards)
                if pp * ep * layout.expert_tp <= cards:
                    yield layout


def variants(job: PlannedJob) -> Iterator[PlannedJob]:
    """The job over layouts, sharding, recompute and offload, one micro batch; what would be refused left out."""
    offloads = [frozenset[str](), frozenset({"tensorwise" if job.framework.reload else "optimizer"})]
    samples = speed.samples(job)
    for layout in degrees(job):
        base = batched(replace(job, layout=layout, sequence_parallel=layout.tp > 1), 1, samples)
        if base is None:
            continue
        schemes = job.framework.sharded if layout.dense_shards > 1 else ("none",)
        for sharding in schemes:
            first = replace(base, sharding=sharding)
            if any(legal.refusals(first)) or hopeless(replace(first, offload=offloads[1])):
                continue
            for away in offloads:
                plain = replace(first, offload=away)
                if not hopeless(plain) and not any(legal.refusals(plain)):
                    yield from (replace(plain, recompute=Recompute(kind)) for kind in ("none", "full"))


def hopeless(job: PlannedJob) -> bool:
    """Whether the weights of the largest stage alone are too much: a quick test before the whole plan."""
    held = max(holdings.holding(job.model, job.layout, s).total for s in {0, job.layout.pp - 1})
    divided = job.layout.dense_shards if job.sharding in ("zero3", "fsdp") else 1
    each = job.precision.weight if not job.quant else 0.5
    if job.trains_all:
        each += job.precision.gradient / (job.layout.dense_shards if job.sharding in ("zero2", "zero3", "fsdp") else 1)
        if not job.offload:
            each += (job.precision.master + job.precision.moments) / (
                job.layout.dense_shards if job.sharding != "none" else 1
            )
    return held * each / divided > meter.usable(job)


def search(job: PlannedJob, limit: int = 10) -> tuple[Found, ...]:
    """The fastest way of each of the best layouts that fit; the asked one is marked, and kept wherever it ranks."""
    samples = speed.samples(job)
    timed = sorted(variants(job), key=lambda other: (speed.step(other, samples).total, len(words(other))))
    best: list[Found] = []
    done: set[Layout] = set()
    for other in timed:
        if other.layout in done:
            continue
        if verdict.fits(other):
            done.add(other.layout)
            grown = verdict.answer(larger_batch(other, samples))
            best.append(Found(grown, speed.step(grown.job, samples), samples, same(grown.job, job)))
        if len(best) >= limit:
            break
    if not any(found.own for found in best):
        best.append(Found(verdict.answer(job), speed.step(job, samples), samples, True))
    return tuple(sorted(best, key=lambda found: (found.plan.verdict == NOT, found.step.total)))


def smallest(job: PlannedJob) -> PlannedJob:
    """The layout that needs least, for where none fits: its distance from the card is the one worth knowing."""
    ways = [job]
    for layout in degrees(job):
        base = replace(job, layout=layout, sequence_parallel=layout.tp > 1)
        schemes = job.framework.sharded if layout.dense_shards > 1 else ("none",)
        ways += [replace(base, sharding=scheme) for scheme in schemes]
    legal_ways = [way for way in ways if not any(legal.refusals(way))]
    return min(legal_ways, key=lambda way: verdict.answer(way).deciding.total, default=job)


def batched(job: PlannedJob, micro_batch: int, samples: int) -> PlannedJob | None:
    """The job with that micro batch, and where a step's samples were said with as many micro batches as make them up;
    None where they cannot."""
    each = job.layout.replicas * micro_batch
    if not job.grad_accum or samples % each == 0:
        return replace(job, micro_batch=micro_batch, grad_accum=job.grad_accum and samples // each)
    return None


def larger_batch(job: PlannedJob, samples: int) -> PlannedJob:
    """Twice the micro batch while that is faster and fits."""
    while job.layout.replicas * job.micro_batch * 2 <= samples:
        other = batched(job, 2 * job.micro_batch, samples)
        if other is None or speed.step(other, samples).total >= speed.step(job, samples).total * 0.999:
            break
        if not verdict.fits(other):
            break
        job = other
    return job


def same(one: PlannedJob, other: PlannedJob) -> bool:
    return (one.layout, one.sharding, one.offload, one.recompute, one.micro_batch) == (
        other.layout,
        other.sharding,
        other.offload,
        other.recompute,
        other.micro_batch,
    )


def front(found: Iterable[Found]) -> list[Found]:
    """The Pareto front: no other is both faster and smaller."""
    least = float("inf")
    kept = []
    for one in sorted(found, key=lambda f: f.step.total):
        if one.plan.deciding.total < least:
            least = one.plan.deciding.total
            kept.append(one)
    return kept


def gib(found: Found) -> float:
    return found.plan.deciding.total / GIB
