"""What a framework, a model or a device would refuse, one sentence each: the field, its value, the legal ones."""

from __future__ import annotations

import math
from collections.abc import Iterator

from launch.memory.adapters import TARGETS
from launch.memory.job import PlannedJob
from launch.memory.quantised import LIFTED
from launch.planner.words import SAID

# Megatron-LM pads the vocabulary (--make-vocab-size-divisible-by); Paddle's VocabParallelEmbedding asserts.
PADS_VOCABULARY = ("megatron", "megatron-swift", "mindspeed", "neox")
OFFLOADS_ACTIVATIONS = ("torchtune", "generic", "swift", "megatron", "megatron-swift")
LARGEST = {"seq_len": 100_000_000, "micro_batch": 65_536, "cards": 1_000_000}


def divisors(*numbers: int) -> list[int]:
    """Numbers that divide all of `numbers`."""
    common = math.gcd(*numbers)
    small = [n for n in range(1, math.isqrt(common) + 1) if common % n == 0]
    return sorted({*small, *(common // n for n in small)})


def listed(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers[:12]))


def refusals(job: PlannedJob) -> Iterator[str]:
    """Everything that stands against the job, before any memory is counted."""
    yield from sizes(job)
    yield from degrees(job)
    yield from offloads(job)
    yield from layers(job)
    yield from cards(job)
    yield from experts(job)
    yield from lengths(job)
    yield from methods(job)


def sizes(job: PlannedJob) -> Iterator[str]:
    x = job.layout
    named = {
        "--tp": x.tp, "--pp": x.pp, "--vpp": x.vpp, "--ep": x.ep, "--cp": x.cp, "--cards": x.cards,
        "--seq-len": job.seq_len, "--micro-batch": job.micro_batch,
    }  # fmt: skip
    for name, value in named.items():
        most = LARGEST.get(name[2:].replace("-", "_"), 1_000_000)
        if not 1 <= value <= most:
            yield f"{name} {value}: a whole number from 1 to {most}"
    if job.grad_accum and job.grad_accum > LARGEST["micro_batch"]:
        yield f"--grad-accum {job.grad_accum}: a whole number from 1 to {LARGEST['micro_batch']}"
    if x.etp and x.tp % x.etp:
        yield f"--etp {x.etp} does not divide --tp {x.tp}: {listed(divisors(x.tp))}"
    if not 0 < job.memory_gib < 10_000:
        yield f"--memory-gib {job.memory_gib:g}: GiB of one card, as 64"


def degrees(job: PlannedJob) -> Iterator[str]:
    """Parallelism that the framework offers, and heads that divide."""
    x, f = job.layout, job.framework
    for name in ("tp", "pp", "vpp", "ep", "cp"):
        if getattr(x, name) > 1 and name not in f.degrees and not x.layer_split:
            yield f"--{name} {getattr(x, name)}: {f.name} has {', '.join(f.degrees) or 'data parallel'} only"
    if job.sharding not in f.sharded:
        yield f"--sharding {SAID[job.sharding]}: {f.name} has {', '.join(dict.fromkeys(SAID[s] for s in f.sharded))}"
    if x.pp > 1 and job.sharding in ("zero2", "zero3", "fsdp") and not (x.layer_split or f.pipelined_shards):
        yield f"--sharding {SAID[job.sharding]} with --pp {x.pp}: a pipeline excludes stages 2 and 3"
    if x.tp > 1:
        yield from widths(job)


def widths(job: PlannedJob) -> Iterator[str]:
    """What tensor parallelism cuts: heads, MLPs, and the vocabulary where the framework does not pad it."""
    x, m = job.layout, job.model
    legal = divisors(m.heads, m.kv_heads)
    if x.tp not in legal:
        yield f"--tp {x.tp} does not divide {m.heads} heads and {m.kv_heads} key/value heads: {listed(legal)}"
    elif m.ffn % x.tp:
        yield f"--tp {x.tp} does not divide the MLP width {m.ffn}: {listed(divisors(m.heads, m.kv_heads, m.ffn))}"
    elif m.vocab % x.tp and job.framework.name not in PADS_VOCABULARY:
        yield f"--tp {x.tp} does not divide {m.vocab} words: {listed(divisors(m.heads, m.kv_heads, m.vocab))}"
    if m.moe and x.expert_tp > 1 and m.moe.ffn % x.expert_tp:
        yield f"--etp {x.expert_tp} does not divide the expert width {m.moe.ffn}"


def offloads(job: PlannedJob) -> Iterator[str]:
    """Where each kind of offload exists."""
    f, away = job.framework, job.offload
    if away and not job.device.pcie_gbs:
        yield f"--offload {'+'.join(sorted(away))}: {job.device.name} is the host itself; none"
    if "tensorwise" in away and not f.reload:
        yield f"--offload tensorwise: {f.name} has optimizer, params, activations; it is Paddle's"
    plain = job.layout.dense_shards > 1 and job.sharding == "none"
    if plain and ("tensorwise" in away or ("optimizer" in away and "zero1" in f.sharded)):
        kind = "tensorwise" if "tensorwise" in away else "optimizer"
        yield f"--offload {kind} excludes plain data parallel: add --sharding stage1"
    if "params" in away and "zero3" not in f.sharded and "fsdp" not in f.sharded:
        yield f"--offload params: {f.name} does not offload them"
    elif "params" in away and job.layout.cards > 1 and job.sharding not in ("zero3", "fsdp"):
        yield f"--offload params with --sharding {SAID[job.sharding]}: parameters are offloaded under stage3 or fsdp"
    if "activations" in away and f.name not in OFFLOADS_ACTIVATIONS:
        yield f"--offload activations: {f.name} does not offload them"


def layers(job: PlannedJob) -> Iterator[str]:
    x, m = job.layout, job.model
    if x.pp > m.layers:
        yield f"--pp {x.pp}: the model has {m.layers} layers"
    elif m.layers % (x.pp * x.vpp) and not (job.framework.uneven and x.vpp == 1):
        legal = [n for n in divisors(m.layers) if n * x.vpp <= m.layers and m.layers % (n * x.vpp) == 0]
        chunks = f" x --vpp {x.vpp}" if x.vpp > 1 else ""
        yield f"--pp {x.pp}{chunks} does not divide {m.layers} layers: --pp {listed(legal)}"
    if x.vpp > 1 and x.pp == 1:
        yield f"--vpp {x.vpp} needs a pipeline: --pp 2 or more"
    if x.vpp > 1 and job.grad_accum and job.grad_accum % x.pp:
        yield f"--grad-accum {job.grad_accum}: chunks (--vpp {x.vpp}) need a multiple of --pp {x.pp}"


def cards(job: PlannedJob) -> Iterator[str]:
    x = job.layout
    if x.cards % (x.tp * x.pp * x.cp) and not x.layer_split:
        yield f"--cards {x.cards} is no multiple of tp x pp x cp = {x.tp * x.pp * x.cp}"
    elif x.cards < x.pp * x.ep * x.expert_tp:
        yield f"--ep {x.ep}: {x.cards} cards are fewer than pp x ep x etp = {x.pp * x.ep * x.expert_tp}"
    elif x.ep > 1 and x.cards % (x.pp * x.ep * x.expert_tp):
        yield f"--ep {x.ep}: {x.cards} cards are no multiple of pp x ep x etp = {x.pp * x.ep * x.expert_tp}"


def experts(job: PlannedJob) -> Iterator[str]:
    x, moe = job.layout, job.model.moe
    if x.ep == 1:
        return
    if not moe:
        yield f"--ep {x.ep}: {job.model.name} has no experts"
    elif moe.experts % x.ep:
        yield f"--ep {x.ep} does not divide {moe.experts} experts: {listed(divisors(moe.experts))}"


def lengths(job: PlannedJob) -> Iterator[str]:
    x, m = job.layout, job.model
    if m.max_positions and job.seq_len > m.max_positions:
        yield f"--seq-len {job.seq_len}: {m.name} goes up to {m.max_positions}"
    if job.sequence_parallel and job.seq_len % x.tp:
        yield f"--seq-len {job.seq_len}: sequence parallelism needs a multiple of --tp {x.tp}"
    if x.cp > 1 and "tp" in job.framework.degrees and job.seq_len % (2 * x.cp):
        yield f"--seq-len {job.seq_len}: context parallelism needs a multiple of 2 x --cp {x.cp}"


def methods(job: PlannedJob) -> Iterator[str]:
    a = job.adapter
    if not job.trains_all:
        if not 1 <= a.rank <= job.model.hidden:
            yield f"--lora-rank {a.rank}: from 1 to the hidden size, {job.model.hidden}"
        if a.targets not in TARGETS:
            yield f"--lora-targets {a.targets}: {job.model.name} has {', '.join(TARGETS)}"
    if job.quant and job.trains_all:
        yield f"--quant {job.quant}: a quantised base cannot be trained in full; use --method qlora"
    if job.quant in LIFTED and not job.device.four_bit:
        yield f"--quant {job.quant}: bitsandbytes has no kernels for {job.device.name}; int4, int8 or none"
    if job.quant and job.quant not in job.framework.quants:
        yield f"--quant {job.quant}: {job.framework.name} has {', '.join(job.framework.quants) or 'no quantised base'}"
