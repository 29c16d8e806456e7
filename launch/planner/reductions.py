"""Single changes of a job that need less memory, of each kind the smallest first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from launch.memory.job import PlannedJob, Recompute
from launch.memory.quantised import LIFTED
from launch.planner import legal, verdict
from launch.planner.words import SAID

# Of equal cost the first of these is named first: what leaves the samples as they are, before what cuts them.
ORDER = ("--recompute", "--micro-batch", "--sharding", "--offload", "--fused-loss", "--tp", "--pp", "--ep", "--cp",
         "--seq-len", "--cards", "--quant")  # fmt: skip
SHORTEST = 512  # tokens: shorter samples than that are another job


Way = tuple[str, Mapping[str, str], PlannedJob]


def options(said: Mapping[str, str]) -> str:
    return " ".join(f"{name} {value}".rstrip() for name, value in said.items())


def single(job: PlannedJob, after: int = -1) -> Iterator[Way]:
    """Every single change that needs less memory, of each kind the smallest first: words, options, job.  Those alone
    whose option stands behind place `after` of ORDER."""
    yield from cheap(job, after)
    yield from chosen(job, after, (("--seq-len", shorter), ("--cards", more_cards), ("--quant", bases)))


def cheap(job: PlannedJob, after: int = -1) -> Iterator[Way]:
    """Those that leave samples, hardware and base as they are."""
    yield from chosen(job, after, (("--recompute", recomputes), ("--micro-batch", batches)))
    yield from chosen(job, after, (("--sharding", shardings), ("--offload", offloads), ("--fused-loss", chunked)))
    yield from degrees(job, after)


def chosen(
    job: PlannedJob, after: int, kinds: Iterable[tuple[str, Callable[[PlannedJob], Iterator[Way]]]]
) -> Iterator[Way]:
    for option, ways in kinds:
        if ORDER.index(option) > after:
            yield from ways(job)


def chunked(job: PlannedJob) -> Iterator[Way]:
    if not job.fused_loss and job.framework.fused_chunk:
        yield "a chunked loss", {"--fused-loss": ""}, replace(job, fused_loss=True)


def recomputes(job: PlannedJob) -> Iterator[Way]:
    order = ("none", "selective", "full")
    for kind in order[order.index(job.recompute.kind) + 1 :] if job.recompute.kind in order else ():
        which = "all layers" if kind == "full" else "what is cheap"
        yield f"recompute {which}", {"--recompute": kind}, replace(job, recompute=Recompute(kind))


def batches(job: PlannedJob) -> Iterator[Way]:
    """Halves of the micro batch, with as many more of them to a step where their number was said."""
    batch = job.micro_batch
    while batch % 2 == 0:
        batch //= 2
        more = job.grad_accum * (job.micro_batch // batch) if job.grad_accum else None
        said = {"--micro-batch": f"{batch}"} | ({"--grad-accum": f"{more}"} if more else {})
        yield f"micro batch {batch}", said, replace(job, micro_batch=batch, grad_accum=more)


def shardings(job: PlannedJob) -> Iterator[Way]:
    """Every scheme that divides more, where there are ranks to divide over."""
    known = job.framework.sharded
    last = "zero3" if "zero3" in known else "fsdp"
    order = [s for s in ("none", "dist_opt", "zero1", "zero2", last) if s in known]
    if job.layout.dense_shards > 1 and job.sharding in order:
        for scheme in order[order.index(job.sharding) + 1 :]:
            yield f"shard more ({SAID[scheme]})", {"--sharding": SAID[scheme]}, replace(job, sharding=scheme)


def offloads(job: PlannedJob) -> Iterator[Way]:
    """One kind more on the host; Paddle's two forms of the optimizer's exclude each other."""
    kinds = ("tensorwise", "optimizer") if job.framework.reload else ("optimizer",)
    for kind in (*kinds, "activations", "params"):
        if kind not in job.offload:
            kept = job.offload - {"optimizer", "tensorwise"} if kind in kinds else job.offload
            said = "+".join(sorted(kept | {kind}))
            yield f"{kind} offload to the host", {"--offload": said}, replace(job, offload=kept | {kind})


def degrees(job: PlannedJob, after: int = -1) -> Iterator[Way]:
    """The same cards laid out with one degree raised, to the next values that divide."""
    x, m, has = job.layout, job.model, job.framework.degrees
    each = {
        "tp": [t for t in legal.divisors(m.heads, m.kv_heads) if t % x.tp == 0],
        "pp": [p for p in legal.divisors(x.pp * x.replicas) if p <= m.layers],
        "ep": legal.divisors(m.moe.experts) if m.moe else [],
        "cp": [x.cp * n for n in legal.divisors(x.replicas)],
    }
    for name, values in each.items():
        if name not in has or ORDER.index(f"--{name}") <= after:
            continue
        for value in (v for v in values if v > getattr(x, name)):
            changed: dict[str, Any] = {name: value}
            layout = replace(x, **changed)
            other = replace(job, layout=layout, sequence_parallel=layout.tp > 1)
            yield f"{name} {value} on the same cards", {f"--{name}": f"{value}"}, other


def shorter(job: PlannedJob) -> Iterator[Way]:
    """The longest samples that fit; where none do, halves of the length for combinations."""
    step = max(64, 2 * job.layout.cp * job.layout.tp)
    least = -(-max(SHORTEST, job.seq_len // 16) // step)

    def fits(part: int) -> bool:
        return verdict.fits(replace(job, seq_len=part * step))

    lengths = [n for n in (job.seq_len // 2, job.seq_len // 4) if n >= least * step]
    if lengths and fits(least):
        lengths = [largest(fits, least, job.seq_len // step) * step]
    for length in (length for length in lengths if length < job.seq_len):
        yield f"samples of {length} tokens", {"--seq-len": f"{length}"}, replace(job, seq_len=length)


def more_cards(job: PlannedJob) -> Iterator[Way]:
    """More cards, spent on shards where the scheme has some, else on stages, else on shards of a new scheme."""
    x = job.layout
    for factor in (2, 3, 4, 8):
        count = x.cards * factor
        grown = replace(job, layout=replace(x, cards=count))
        if job.sharding != "none":
            yield f"{count} cards", {"--cards": f"{count}"}, grown
        elif "pp" not in job.framework.degrees:
            for what, said, other in shardings(grown):
                yield f"{count} cards, {what}", {"--cards": f"{count}", **said}, other
    if "pp" in job.framework.degrees:
        for pp in range(x.pp + 1, min(job.model.layers, 4 * x.pp) + 1):
            count = x.cards // x.pp * pp
            other = replace(job, layout=replace(x, pp=pp, cards=count))
            yield f"{count} cards, pp {pp}", {"--cards": f"{count}", "--pp": f"{pp}"}, other


def bases(job: PlannedJob) -> Iterator[Way]:
    """Quantised bases of the framework, under adapters, that the device has kernels for."""
    if job.trains_all or job.quant:
        return
    for name in (n for n in ("bnb-nf4", "gptq-int4", "wint4/8") if n in job.framework.quants):
        if job.device.four_bit or name not in LIFTED:
            yield f"a base of 4 bits ({name})", {"--quant": name}, replace(job, quant=name)


def largest(fits: Callable[[int], bool], start: int, limit: int) -> int:
    """The largest n from `start` on that fits, by doubling and halving; memory grows with n."""
    low = start
    high = start
    while high < limit and fits(min(2 * high, limit)):
        low = high = min(2 * high, limit)
    high = min(2 * low, limit)
    while high - low > max(1, low // 64):
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
