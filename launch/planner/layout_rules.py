"""Reasons for which a framework, model or device rejects a job: the option, its value and the valid values."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from envcheck.core.messages import Message, _, join
from launch.memory import group_sharded
from launch.memory.adapters import TARGETS
from launch.memory.planned_job import PlannedJob
from launch.memory.quantised import LIFTED
from launch.planner.option_words import SHARDING_NAMES

# Megatron-LM pads the vocabulary (--make-vocab-size-divisible-by); Paddle's VocabParallelEmbedding fails.
PADS_VOCABULARY = ("megatron", "megatron-swift", "mindspeed", "neox")
# Above anything that is trained today; what a job cannot have is refused by its model, as ranks above the hidden size.
MAX_VALUES = {"seq_len": 100_000_000, "micro_batch": 65_536, "cards": 1_000_000, "lora_rank": 1_000_000}

Names = Mapping[str, str]  # of a value of the job, as its user writes it: tp → --tp
OPTIONS = (
    *("tp", "pp", "vpp", "ep", "etp", "cp", "cards", "seq_len", "micro_batch", "grad_accum", "memory_gib", "sharding"),
    *("offload", "lora_rank", "lora_targets", "quant"),
)
OPTION_NAMES: Names = {name: f"--{name.replace('_', '-')}" for name in OPTIONS}


def list_divisors(*numbers: int) -> list[int]:
    """Return the common divisors of `numbers`, ascending."""
    common = math.gcd(*numbers)
    small = [n for n in range(1, math.isqrt(common) + 1) if common % n == 0]
    return sorted({*small, *(common // n for n in small)})


def format_numbers(numbers: list[int]) -> Message:
    """Return the first 12 numbers, comma-separated."""
    return join(", ", map(str, numbers[:12]))


def list_refusals(job: PlannedJob, names: Names = OPTION_NAMES) -> Iterator[Message]:
    """Yield every reason to reject the job, before any memory is estimated.

    `names` are the names of the job's values in the messages, by default the options of `envcheck plan`.
    """
    yield from check_sizes(job, names)
    yield from check_degrees(job, names)
    yield from check_offloads(job, names)
    yield from check_layers(job, names)
    yield from check_cards(job, names)
    yield from check_experts(job, names)
    yield from check_lengths(job, names)
    yield from check_methods(job, names)


def check_sizes(job: PlannedJob, names: Names) -> Iterator[Message]:
    """Yield a message for each number outside its range."""
    x = job.layout
    sizes = {
        "tp": x.tp, "pp": x.pp, "vpp": x.vpp, "ep": x.ep, "cp": x.cp, "cards": x.cards,
        "seq_len": job.seq_len, "micro_batch": job.micro_batch,
    }  # fmt: skip
    for name, value in sizes.items():
        most = MAX_VALUES.get(name, 1_000_000)
        if not 1 <= value <= most:
            yield _(
                "{option} {value}: expected an integer from 1 to {most}", option=names[name], value=value, most=most
            )
    if job.grad_accum and job.grad_accum > MAX_VALUES["micro_batch"]:
        yield _(
            "{grad_accum_name} {grad_accum}: expected an integer from 1 to {micro_batch}",
            grad_accum_name=names["grad_accum"],
            grad_accum=job.grad_accum,
            micro_batch=MAX_VALUES["micro_batch"],
        )
    if x.etp and x.tp % x.etp:
        yield _(
            "{etp_name} {etp} does not divide {tp_name} {tp}; valid: {legal}",
            etp_name=names["etp"],
            tp_name=names["tp"],
            etp=x.etp,
            tp=x.tp,
            legal=format_numbers(list_divisors(x.tp)),
        )
    if not 0 < job.memory_gib < 10_000:
        yield _(
            "{memory_gib_name} {memory_gib:g}: expected the memory of one card in GiB, for example 64",
            memory_gib_name=names["memory_gib"],
            memory_gib=job.memory_gib,
        )


def check_degrees(job: PlannedJob, names: Names) -> Iterator[Message]:
    """Yield a message for parallelism that the framework does not support, or that does not divide the model."""
    x, f = job.layout, job.framework
    for name in ("tp", "pp", "vpp", "ep", "cp"):
        if getattr(x, name) > 1 and name not in f.degrees and not x.layer_split:
            yield _(
                "{option} {value}: {framework} supports {degrees} only",
                option=names[name],
                value=getattr(x, name),
                framework=f.name,
                degrees=join(", ", f.degrees) or _("data parallel"),
            )
    if job.sharding not in f.sharded:
        yield _(
            "{sharding_name} {said}: {name} supports {sharded}",
            sharding_name=names["sharding"],
            said=SHARDING_NAMES[job.sharding],
            name=f.name,
            sharded=join(", ", dict.fromkeys(SHARDING_NAMES[s] for s in f.sharded)),
        )
    if x.pp > 1 and job.sharding in ("zero2", "zero3", "fsdp") and not (x.layer_split or f.pipelined_shards):
        yield _(
            "{sharding_name} {said} cannot be combined with {pp_name} {pp}: "
            "pipeline parallelism excludes stages 2 and 3",
            sharding_name=names["sharding"],
            pp_name=names["pp"],
            said=SHARDING_NAMES[job.sharding],
            pp=x.pp,
        )
    if x.tp > 1 and group_sharded.gathers_matrices(job):  # paddleformers/trainer/trainer.py, _wrap_model
        yield _(
            "{sharding_name} {said} cannot be combined with {tp_name} {tp}: {name} requires stage 1 or 2",
            sharding_name=names["sharding"],
            said=SHARDING_NAMES[job.sharding],
            tp_name=names["tp"],
            tp=x.tp,
            name=f.name,
        )
    if x.tp > 1:
        yield from check_widths(job, names)


def check_widths(job: PlannedJob, names: Names) -> Iterator[Message]:
    """Yield a message if tp does not divide heads, MLPs or a vocabulary that the framework does not pad."""
    x, m = job.layout, job.model
    legal = list_divisors(m.heads, m.kv_heads)
    if x.tp not in legal:
        yield _(
            "{tp_name} {tp} does not divide {heads} heads and {kv_heads} key/value heads; valid: {legal}",
            tp_name=names["tp"],
            tp=x.tp,
            heads=m.heads,
            kv_heads=m.kv_heads,
            legal=format_numbers(legal),
        )
    elif m.ffn % x.tp:
        yield _(
            "{tp_name} {tp} does not divide the MLP width {ffn}; valid: {heads}",
            tp_name=names["tp"],
            tp=x.tp,
            ffn=m.ffn,
            heads=format_numbers(list_divisors(m.heads, m.kv_heads, m.ffn)),
        )
    elif m.vocab % x.tp and job.framework.name not in PADS_VOCABULARY:
        yield _(
            "{tp_name} {tp} does not divide the vocabulary size {vocab}; valid: {heads}",
            tp_name=names["tp"],
            tp=x.tp,
            vocab=m.vocab,
            heads=format_numbers(list_divisors(m.heads, m.kv_heads, m.vocab)),
        )
    if m.moe and x.expert_tp > 1 and m.moe.ffn % x.expert_tp:
        yield _(
            "{etp_name} {expert_tp} does not divide the expert width {ffn}",
            etp_name=names["etp"],
            expert_tp=x.expert_tp,
            ffn=m.moe.ffn,
        )


def check_offloads(job: PlannedJob, names: Names) -> Iterator[Message]:
    """Yield a message for each kind of offload that framework, device or sharding does not support."""
    f, away = job.framework, job.offload
    if away and not job.device.pcie_gbs:
        yield _(
            "{offload_name} {away}: {name} is the host itself; use none",
            offload_name=names["offload"],
            away="+".join(sorted(away)),
            name=job.device.name,
        )
    for kind in sorted(away):
        schemes = f.offloads.get(kind, ())
        if not schemes:
            yield _(
                "{offload_name} {kind}: {name} supports {kinds}",
                offload_name=names["offload"],
                kind=kind,
                name=f.name,
                kinds=join(", ", sorted(f.offloads)) or "none",
            )
        elif not is_offload_carried(job, kind):
            yield _(
                "{offload_name} {kind} needs {sharding_name} {schemes} in {name}, not {said}",
                offload_name=names["offload"],
                sharding_name=names["sharding"],
                kind=kind,
                schemes=join(_(" or "), dict.fromkeys(SHARDING_NAMES[scheme] for scheme in schemes if scheme != "none"))
                or "none",
                name=f.name,
                said=SHARDING_NAMES[job.sharding],
            )


def is_offload_carried(job: PlannedJob, kind: str) -> bool:
    """Whether the framework can offload this with the job's sharding.

    FSDP moves the optimizer with the parameters.  A single shard needs no sharding where sharding is only a saving, as
    in Megatron and Paddle, but ZeRO's offload is a part of ZeRO, and torch's a part of FSDP.
    """
    schemes = job.framework.offloads.get(kind, ())
    if job.sharding == "fsdp" and kind == "optimizer":
        return "params" in job.offload and "fsdp" in job.framework.offloads.get("params", ())
    if job.sharding == "none" and "dist_opt" in schemes:
        return job.layout.dense_shards == 1
    return job.sharding in schemes


def check_layers(job: PlannedJob, names: Names) -> Iterator[Message]:
    """Yield a message if the pipeline degrees do not divide the layers or the micro batches."""
    x, m = job.layout, job.model
    if x.pp > m.layers:
        yield _("{pp_name} {pp}: the model has {layers} layers", pp_name=names["pp"], pp=x.pp, layers=m.layers)
    elif m.layers % (x.pp * x.vpp) and not (job.framework.uneven and x.vpp == 1):
        legal = [n for n in list_divisors(m.layers) if n * x.vpp <= m.layers and m.layers % (n * x.vpp) == 0]
        values = {"pp": x.pp, "layers": m.layers, "legal": format_numbers(legal)}
        yield (
            _(
                "{pp_name} {pp} x {vpp_name} {vpp} does not divide {layers} layers; valid: {legal}",
                pp_name=names["pp"],
                vpp_name=names["vpp"],
                vpp=x.vpp,
                **values,
            )
            if x.vpp > 1
            else _("{pp_name} {pp} does not divide {layers} layers; valid: {legal}", pp_name=names["pp"], **values)
        )
    if x.vpp > 1 and x.pp == 1:
        yield _(
            "{vpp_name} {vpp} needs a pipeline: {pp_name} 2 or more",
            vpp_name=names["vpp"],
            pp_name=names["pp"],
            vpp=x.vpp,
        )
    if x.vpp > 1 and job.grad_accum and job.grad_accum % x.pp:
        yield _(
            "{grad_accum_name} {grad_accum}: chunks ({vpp_name} {vpp}) need a multiple of {pp_name} {pp}",
            grad_accum_name=names["grad_accum"],
            vpp_name=names["vpp"],
            pp_name=names["pp"],
            grad_accum=job.grad_accum,
            vpp=x.vpp,
            pp=x.pp,
        )


def check_cards(job: PlannedJob, names: Names) -> Iterator[Message]:
    """Yield a message if the cards are not a multiple of the degrees."""
    x = job.layout
    if x.cards % (x.tp * x.pp * x.cp) and not x.layer_split:
        yield _(
            "{cards_name} {cards} is not a multiple of tp x pp x cp = {tp}",
            cards_name=names["cards"],
            cards=x.cards,
            tp=x.tp * x.pp * x.cp,
        )
    elif x.cards < x.pp * x.ep * x.expert_tp:
        yield _(
            "{ep_name} {ep}: {cards} cards are fewer than pp x ep x etp = {pp}",
            ep_name=names["ep"],
            ep=x.ep,
            cards=x.cards,
            pp=x.pp * x.ep * x.expert_tp,
        )
    elif x.ep > 1 and x.cards % (x.pp * x.ep * x.expert_tp):
        yield _(
            "{ep_name} {ep}: {cards} cards are not a multiple of pp x ep x etp = {pp}",
            ep_name=names["ep"],
            ep=x.ep,
            cards=x.cards,
            pp=x.pp * x.ep * x.expert_tp,
        )


def check_experts(job: PlannedJob, names: Names) -> Iterator[Message]:
    """Yield a message if expert parallelism does not divide the experts, or there are none."""
    x, moe = job.layout, job.model.moe
    if x.ep == 1:
        return
    if not moe:
        yield _("{ep_name} {ep}: {name} has no experts", ep_name=names["ep"], ep=x.ep, name=job.model.name)
    elif moe.experts % x.ep:
        yield _(
            "{ep_name} {ep} does not divide {experts} experts; valid: {legal}",
            ep_name=names["ep"],
            ep=x.ep,
            experts=moe.experts,
            legal=format_numbers(list_divisors(moe.experts)),
        )


def check_lengths(job: PlannedJob, names: Names) -> Iterator[Message]:
    """Yield a message if the sequence is too long, or the degrees do not divide it."""
    x, m = job.layout, job.model
    if m.max_positions and job.seq_len > m.max_positions:
        yield _(
            "{seq_len_name} {seq_len}: {name} supports up to {max_positions} tokens",
            seq_len_name=names["seq_len"],
            seq_len=job.seq_len,
            name=m.name,
            max_positions=m.max_positions,
        )
    if job.splits_sequence and job.seq_len % x.tp:
        yield _(
            "{seq_len_name} {seq_len}: sequence parallelism needs a multiple of {tp_name} {tp}",
            seq_len_name=names["seq_len"],
            tp_name=names["tp"],
            seq_len=job.seq_len,
            tp=x.tp,
        )
    if x.cp > 1 and "tp" in job.framework.degrees and job.seq_len % (2 * x.cp):
        yield _(
            "{seq_len_name} {seq_len}: context parallelism needs a multiple of 2 x {cp_name} {cp}",
            seq_len_name=names["seq_len"],
            cp_name=names["cp"],
            seq_len=job.seq_len,
            cp=x.cp,
        )


def check_methods(job: PlannedJob, names: Names) -> Iterator[Message]:
    """Yield a message for unsupported adapters and quantised bases."""
    a = job.adapter
    if not job.trains_all:
        if not 1 <= a.rank <= job.model.hidden:
            yield _(
                "{lora_rank_name} {rank}: expected 1 to {hidden} (the hidden size)",
                lora_rank_name=names["lora_rank"],
                rank=a.rank,
                hidden=job.model.hidden,
            )
        if a.targets not in TARGETS:
            yield _(
                "{lora_targets_name} {targets}: {model} supports {legal}",
                lora_targets_name=names["lora_targets"],
                targets=a.targets,
                model=job.model.name,
                legal=join(", ", TARGETS),
            )
    if job.quant and job.trains_all:
        yield _(
            "{quant_name} {quant}: a quantised base cannot be trained in full; use --method qlora",
            quant_name=names["quant"],
            quant=job.quant,
        )
    if job.quant in LIFTED and not job.device.four_bit:
        yield _(
            "{quant_name} {quant}: bitsandbytes has no kernels for {name}; use int4, int8 or none",
            quant_name=names["quant"],
            quant=job.quant,
            name=job.device.name,
        )
    if job.quant and job.quant not in job.framework.quants:
        yield _(
            "{quant_name} {quant}: {name} supports {quants}",
            quant_name=names["quant"],
            quant=job.quant,
            name=job.framework.name,
            quants=join(", ", job.framework.quants) or _("no quantised base model"),
        )
