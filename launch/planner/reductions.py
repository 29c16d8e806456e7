"""List single changes of a job that reduce its memory, of each kind the smallest first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from envcheck.core.messages import _, fill, join, mark
from launch.catalogue import framework_options
from launch.memory.open_inputs import settle_inputs
from launch.memory.planned_job import Adapter, PlannedJob, Recompute
from launch.memory.quantised import LIFTED
from launch.planner import layout_rules, verdict
from launch.planner.option_words import ADAPTER_RANK, SHARDING_NAMES, format_offload

# Order of changes with equal cost: those that keep the samples come before those that shorten them.
ORDER = ("--recompute", "--micro-batch", "--sharding", "--offload", "--fused-loss", "--sequence-parallel", "--tp",
         "--pp", "--ep", "--cp", "--seq-len", "--cards", "--quant", "--method")  # fmt: skip
SHORTEST = 512  # tokens: shorter samples make it a different job
OFFLOAD_WORDS = {
    "optimizer": mark("offload the optimizer to the host"),
    "tensorwise": mark("offload the optimizer to the host tensor by tensor"),
    "activations": mark("offload activations to the host"),
    "params": mark("offload parameters to the host"),
}
JobChange = tuple[str, Mapping[str, str], PlannedJob]  # description, options to add, changed job


def format_options(options: Mapping[str, str]) -> str:
    """Return the options as on the command line; a flag has the value ""."""
    return " ".join(f"{name} {value}".rstrip() for name, value in options.items())


def list_single_changes(job: PlannedJob, after: int = -1) -> Iterator[JobChange]:
    """Yield every single change that reduces memory, of each kind the smallest first.

    Only changes whose option has a position above `after` in ORDER.
    """
    yield from list_cheap_changes(job, after)
    yield from select_changes(
        job,
        after,
        (
            ("--seq-len", shorten_samples),
            ("--cards", add_cards),
            ("--quant", list_quantised_bases),
            ("--method", list_tuner_changes),
        ),
    )


def list_cheap_changes(job: PlannedJob, after: int = -1) -> Iterator[JobChange]:
    """Yield the changes that keep samples, hardware and base model."""
    yield from select_changes(
        job, after, (("--recompute", list_recompute_changes), ("--micro-batch", halve_micro_batch))
    )
    yield from select_changes(
        job,
        after,
        (
            ("--sharding", list_sharding_changes),
            ("--offload", list_offload_changes),
            ("--fused-loss", chunk_loss),
            ("--sequence-parallel", split_sequence),
        ),
    )
    yield from list_degree_changes(job, after)


def select_changes(
    job: PlannedJob, after: int, kinds: Iterable[tuple[str, Callable[[PlannedJob], Iterator[JobChange]]]]
) -> Iterator[JobChange]:
    """Yield the changes of the kinds whose option has a position above `after` in ORDER."""
    for option, ways in kinds:
        if ORDER.index(option) > after:
            yield from ways(job)


def chunk_loss(job: PlannedJob) -> Iterator[JobChange]:
    """Yield the chunked loss, if the framework has one."""
    if not job.fused_loss and job.framework.fused_chunk:
        yield _("chunked loss"), {"--fused-loss": ""}, settle_inputs(replace(job, fused_loss=True), "fused_loss")


def split_sequence(job: PlannedJob) -> Iterator[JobChange]:
    """Yield sequence parallelism, which takes no further card, if a tensor parallel job lacks it."""
    if job.layout.tp > 1 and not job.splits_sequence:
        yield _("sequence parallelism"), {"--sequence-parallel": ""}, replace(job, sequence_parallel=True)


def list_recompute_changes(job: PlannedJob) -> Iterator[JobChange]:
    """Yield the kinds of recompute that keep fewer activations."""
    order = ("none", "selective", "full")
    for kind in order[order.index(job.recompute.kind) + 1 :] if job.recompute.kind in order else ():
        what = _("recompute all layers") if kind == "full" else _("recompute attention only")
        yield what, {"--recompute": kind}, replace(job, recompute=Recompute(kind))


def halve_micro_batch(job: PlannedJob) -> Iterator[JobChange]:
    """Yield halves of the micro batch; --grad-accum, if given, grows to keep the batch of a step."""
    batch = job.micro_batch
    while batch % 2 == 0:
        batch //= 2
        more = job.grad_accum * (job.micro_batch // batch) if job.grad_accum else None
        options = {"--micro-batch": f"{batch}"} | ({"--grad-accum": f"{more}"} if more else {})
        yield _("micro batch {batch}", batch=batch), options, replace(job, micro_batch=batch, grad_accum=more)


def list_sharding_changes(job: PlannedJob) -> Iterator[JobChange]:
    """Yield the schemes that shard more, if there are several data-parallel ranks."""
    known = job.framework.sharded
    last = "zero3" if "zero3" in known else "fsdp"
    order = [s for s in ("none", "dist_opt", "zero1", "zero2", last) if s in known]
    if job.layout.dense_shards > 1 and job.sharding in order:
        for scheme in order[order.index(job.sharding) + 1 :]:
            yield (
                _("sharding {said}", said=SHARDING_NAMES[scheme]),
                {"--sharding": SHARDING_NAMES[scheme]},
                replace(job, sharding=scheme),
            )


def list_offload_changes(job: PlannedJob) -> Iterator[JobChange]:
    """Yield one more kind of offload; Paddle's two kinds of optimizer offload exclude each other.

    On a single card also the sharding that the offload is a part of: DeepSpeed's offload needs its ZeRO.
    """
    known = job.framework.offloads
    kinds = [frozenset({kind}) for kind in ("tensorwise", "optimizer", "activations", "params") if kind in known]
    if {"zero3"} & set(known.get("optimizer", ())) & set(known.get("params", ())):
        kinds.append(frozenset({"optimizer", "params"}))
    for more in kinds:
        if more <= job.offload:
            continue
        kept = job.offload - {"optimizer", "tensorwise"} if more & {"tensorwise", "optimizer"} else job.offload
        other = replace(job, offload=kept | more)
        options = {"--offload": format_offload(other)}
        missing = [kind for kind in sorted(more) if not layout_rules.is_offload_carried(other, kind)]
        if missing and job.layout.cards == 1:  # with more, tensor and pipeline ranks leave nothing to shard
            schemes = known[missing[-1]]  # parameters, if they are among them: these need the higher stage
            other = replace(other, sharding=next((s for s in schemes if s in job.framework.sharded), job.sharding))
            options = {"--sharding": SHARDING_NAMES[other.sharding], **options}
        yield join(", ", (fill(OFFLOAD_WORDS[kind]) for kind in sorted(more))), options, other


def list_degree_changes(job: PlannedJob, after: int = -1) -> Iterator[JobChange]:
    """Yield layouts of the same cards with one degree raised to the next valid values."""
    x, m, has = job.layout, job.model, job.framework.degrees
    each = {
        "tp": [t for t in layout_rules.list_divisors(m.heads, m.kv_heads) if t % x.tp == 0],
        "pp": [p for p in layout_rules.list_divisors(x.pp * x.replicas) if p <= m.layers],
        "ep": layout_rules.list_divisors(m.moe.experts) if m.moe else [],
        "cp": [x.cp * n for n in layout_rules.list_divisors(x.replicas)],
    }
    for name, values in each.items():
        if name not in has or ORDER.index(f"--{name}") <= after:
            continue
        for value in (v for v in values if v > getattr(x, name)):
            changed: dict[str, Any] = {name: value}
            other = replace(job, layout=replace(x, **changed))
            options = {f"--{name}": f"{value}", **name_split_sequence(job, other)}
            yield _("{degree} {value} on the same cards", degree=name, value=value), options, other


def name_split_sequence(job: PlannedJob, other: PlannedJob) -> dict[str, str]:
    """Return the option of sequence parallelism if `other` has it in contrast to `job`, and the framework sets it."""
    option = {"--sequence-parallel": ""}
    is_new = other.splits_sequence and not job.splits_sequence
    return option if is_new and framework_options.has_settings(job.framework.name, option) else {}


def shorten_samples(job: PlannedJob) -> Iterator[JobChange]:
    """Yield the longest samples that fit; if none do, half and a quarter of the length for combinations."""
    step = max(64, 2 * job.layout.cp * job.layout.tp)
    least = -(-max(SHORTEST, job.seq_len // 16) // step)

    def fits(part: int) -> bool:
        return verdict.does_fit(replace(job, seq_len=part * step))

    lengths = [n for n in (job.seq_len // 2, job.seq_len // 4) if n >= least * step]
    if lengths and fits(least):
        lengths = [find_largest(fits, least, job.seq_len // step) * step]
    for length in (length for length in lengths if length < job.seq_len):
        yield _("samples of {length} tokens", length=length), {"--seq-len": f"{length}"}, replace(job, seq_len=length)


def add_cards(job: PlannedJob) -> Iterator[JobChange]:
    """Yield more cards, used for more shards if the job is sharded, else for pipeline stages or a sharding scheme."""
    x = job.layout
    for factor in (2, 3, 4, 8):
        count = x.cards * factor
        grown = replace(job, layout=replace(x, cards=count))
        if job.sharding != "none":
            yield _("{count} cards", count=count), {"--cards": f"{count}"}, grown
        elif "pp" not in job.framework.degrees:
            for what, options, other in list_sharding_changes(grown):
                yield _("{count} cards, {what}", count=count, what=what), {"--cards": f"{count}", **options}, other
    if "pp" in job.framework.degrees:
        for pp in range(x.pp + 1, min(job.model.layers, 4 * x.pp) + 1):
            count = x.cards // x.pp * pp
            other = replace(job, layout=replace(x, pp=pp, cards=count))
            yield _("{count} cards, pp {pp}", count=count, pp=pp), {"--cards": f"{count}", "--pp": f"{pp}"}, other


def list_quantised_bases(job: PlannedJob) -> Iterator[JobChange]:
    """Yield 4-bit base models that framework and device support, for a job with adapters."""
    if job.trains_all or job.quant:
        return
    for name in (n for n in ("bnb-nf4", "gptq-int4", "wint4/8") if n in job.framework.quants):
        if job.device.four_bit or name not in LIFTED:
            yield _("4-bit base model ({name})", name=name), {"--quant": name}, replace(job, quant=name)


def list_tuner_changes(job: PlannedJob) -> Iterator[JobChange]:
    """Yield LoRA, then QLoRA, for a job that trains the full model, if the framework has them."""
    if not job.trains_all or not job.framework.adapters:
        return
    prefix = f"{job.stage}-" if job.stage else ""
    adapted = replace(job, method="lora", adapter=Adapter(ADAPTER_RANK), reference=False)
    what = _("LoRA adapters of rank {rank} instead of full training", rank=ADAPTER_RANK)
    yield what, {"--method": f"{prefix}lora"}, adapted
    for _unused, options, other in list_quantised_bases(adapted):
        both = _("{lora}, on a 4-bit base model (QLoRA)", lora=what)
        yield both, {"--method": f"{prefix}qlora", **options}, other


def find_largest(fits: Callable[[int], bool], start: int, limit: int) -> int:
    """Return the largest n from `start` to `limit` that fits, to 1/64, by doubling and bisection."""
    low = start
    high = start
    while high < limit and fits(min(2 * high, limit)):
        low = high = min(2 * high, limit)
    high = min(2 * low, limit)
    while high - low > max(1, low // 64):
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
