"""Build a job from a row of a table; docs/how-to/plan-memory.md lists the columns.

Columns with measured results are never read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from envcheck.core.errors import UsageError
from envcheck.core.messages import Message, _, join
from launch.catalogue import devices, frameworks
from launch.catalogue.architecture import Model
from launch.catalogue.frameworks import Framework
from launch.memory import open_inputs
from launch.memory.planned_job import Adapter, ParallelLayout, PlannedJob, Precision, Recompute, adapt_model
from launch.memory.quantised import cast_adapters, is_lifted
from launch.memory.saved_activations import C
from launch.memory.states import moment_bytes
from launch.planner import option_words, row_models
from launch.planner.row_words import ADAPTED, FULL_RECOMPUTE, NONE, SAVED, UNSAID, VOCABULARIES

Row = Mapping[str, str]

# For layouts without a card count: release tests of Megatron run on clusters (megatron-golden-014: 64).
ASSUMED_CARDS = 64
# Long data truncated at n tokens fills n up to 2048; above, fewer samples are that long, and the longest grows like
# n^0.63 (fitted to swift-bench at 4096 and 8192 tokens).
FILLED, FILL_POWER = 2048, 0.63

# Relative error of activations for an unknown framework.
UNKNOWN_SPREAD = 0.3

BYTES = {
    "fp32": 4.0, "float32": 4.0, "tf32": 4.0, "bf16": 2.0, "bfloat16": 2.0, "fp16": 2.0, "float16": 2.0, "half": 2.0,
    "fp8": 1.0, "int8": 1.0,
}  # fmt: skip
HALF = ("fp16", "float16", "half")
# Columns that settle an input of another name; the last has none: a switch does not name the kernel.
COLUMNS_OF_INPUT = {
    "fused_loss": ("fused_ce",), "offload_share": ("offload",), "buckets": ("reduce_bucket_size",),
    "replicas": ("cards", "dp"), "attention": (), "autocast": (), "quantised_inputs": (), "use_cache": (),
    "mixed_precision": (), "preparation": (), "adapter_units": (), "outliers": (),
}  # fmt: skip
COUNTS = ("cards", "tp", "pp", "seq_len", "micro_batch")  # columns whose number is at least 1
LONGEST_UNKNOWN = ("cap", "short_data")
VARYING = (*LONGEST_UNKNOWN, "truncated_long_data", "longest_sample")


def parse_number(row: Row, key: str, default: float = 0.0) -> float:
    """Return the column as a number, `default` if empty; UsageError if it is not a number, or out of range."""
    text = (row.get(key) or "").strip()
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1e15:
        raise UsageError(
            _("{key} is {value!r}", key=key, value=text),
            _("{key} must be a positive number, or empty", key=key)
            if key in COUNTS
            else _("{key} must be a number of at least 0, or empty", key=key),
        )
    return value


def parse_integer(row: Row, key: str, default: int = 0) -> int:
    """Return the column as an integer, `default` if empty."""
    return int(parse_number(row, key, default))


def parse_flag(row: Row, key: str, default: bool = False) -> bool:
    """Whether the column is 1, true, yes or on; `default` if it is empty or unknown."""
    word = (row.get(key) or "").strip().lower()
    return word in ("1", "1.0", "true", "yes", "on") or (default and word not in NONE)


def find_row_framework(row: Row) -> Framework:
    """Return the framework by name, else by the row's parallelism: Megatron with degrees, a plain trainer without.

    The parameters of FSDP2 are DTensors, for which torch's optimizers take the form without temporaries unless foreach
    is asked for (torch/optim/optimizer.py, _default_to_fused_or_foreach).
    """
    found = frameworks.find_framework(row.get("framework") or "")
    if found and "grad" in (row.get("sharding") or "").lower():
        found = replace(found, keeps_weights=True)
    if found and "fsdp2" in (row.get("sharding") or "").lower():
        return replace(use_fsdp2(found), step=found.step * ("foreach" in (row.get("optimizer") or "").lower()))
    if found:
        return found
    way = (row.get("sharding") or "").lower()
    parallel = parse_integer(row, "tp", 1) * parse_integer(row, "pp", 1) * parse_integer(
        row, "ep", 1
    ) > 1 or way.startswith("dist")
    like = frameworks.load_frameworks()["paddle" if "paddle" in way else "megatron" if parallel else "generic"]
    return replace(like, spread=UNKNOWN_SPREAD)


def has_known_loop(row: Row) -> bool:
    """Whether the row names a framework with a training loop, not a library alone."""
    found = frameworks.find_framework(row.get("framework") or "")
    return found is not None and not found.is_library


def use_fsdp2(f: Framework) -> Framework:
    """Return the framework with PyTorch's second FSDP.

    It has neither the input hooks nor the no_sync of the first one; accelerate looks for no_sync by name, and without
    it reduces gradients after every micro batch.
    """
    return replace(f, watches_inputs=False, accumulates_whole=False, fully_shard=frameworks.METHODS)


def size_buckets(f: Framework, row: Row) -> Framework:
    """Return the framework with the row's sizes of a DeepSpeed configuration, in entries.

    `reduce_bucket_size` is that of the buffers of gradients: two of them under ZeRO-1 and 2 (overlap_comm), and under
    ZeRO-3 one of gathered parameters as well.
    """
    sizes: dict[str, Any] = {
        "gathered": parse_number(row, "stage3_max_live_parameters", f.gathered),
        "prefetch": parse_number(row, "stage3_prefetch_bucket_size", f.prefetch),
        "subgroup": parse_number(row, "sub_group_size", f.subgroup),
    }
    if bucket := parse_number(row, "reduce_bucket_size"):
        sizes |= {"reduce": 2 * bucket, "bucket": 2 * bucket}
    return replace(f, **sizes)


def parse_layout(row: Row) -> ParallelLayout:
    """Return the degrees of the row; a missing card count follows from dp, else from ASSUMED_CARDS."""
    tp, pp, cp, ep = (max(1, parse_integer(row, key, 1)) for key in ("tp", "pp", "cp", "ep"))
    each, cards, replicas = tp * pp * cp, parse_integer(row, "cards"), parse_integer(row, "dp")
    if not cards:  # replicas of Megatron's kind include those that divide the experts
        cards = each * (replicas or (1 if each * ep == 1 else max(1, ASSUMED_CARDS // each)))
    way = (row.get("device_map") or "").strip().lower()
    split = way.startswith("naive_layer_split") or way in ("auto", "balanced")
    if split:
        pp = max(1, cards // (2 if way.endswith("x2") else 1))
    etp = parse_integer(row, "etp") or None
    return ParallelLayout(tp, pp, max(1, parse_integer(row, "vpp", 1)), ep, etp, cp, cards, split)


def parse_precision(row: Row, f: Framework) -> Precision:
    """Return the bytes per parameter; empty columns have the framework's default."""
    dtype = (row.get("weight_dtype") or "").strip().lower()
    weight = BYTES.get(dtype, f.weight)
    has_master = bool(f.master)
    master = (f.master or 4.0) if parse_flag(row, "master_weights", has_master) else 0.0
    if dtype in HALF and master:
        master = f.half_master
    if weight == 4.0:
        master = 0.0
    gradient = BYTES.get((row.get("grad_dtype") or "").strip().lower(), 4.0 if weight == 4.0 else f.gradient)
    if weight == 1.0:
        gradient = min(gradient, 2.0)  # fp8 weights (ERNIE's FP8 recipe on 16 cards): 16-bit gradients
    compute = weight if f.full_precision else C
    return Precision(weight, gradient, master, moment_bytes(row.get("optimizer") or "adamw", weight, master), compute)


def repeats_shards(row: Row) -> bool:
    """Whether FSDP shards within a node and repeats that on each (HYBRID_SHARD)."""
    return any(word in (row.get("sharding") or "").lower() for word in ("hsdp", "hybrid"))


def parse_sharding(row: Row) -> str:
    """Return none, dist_opt, zero1, zero2, zero3 or fsdp."""
    text = (row.get("sharding") or "none").lower()
    if "fsdp" in text or repeats_shards(row):
        return "fsdp"
    stage = re.search(r"(?:zero|stage)[-_ ]?([0-3])", text)
    if not stage:
        return "dist_opt" if "dist" in text else "none"
    found = ("none", "zero1", "zero2", "zero3")[int(stage[1])]
    return "dist_opt" if found == "zero1" and "paddle" in text else found


def parse_offload(row: Row) -> option_words.OffloadParts:
    """Return the parts that are moved to the host; UsageError for an invalid number.

    The column has the values of --offload, also as optimizer(tensorwise), optimizer(swap), optim or param.  Unknown
    words are ignored.
    """
    text = (row.get("offload") or "none").lower()
    parts = [part for each in re.split(r"[+,]", text) if (part := _name_offload(each))]
    return option_words.parse_offload("+".join(dict.fromkeys(parts)))


def _name_offload(text: str) -> str:
    """Return the value of --offload for a part of the column, "" for an unknown one."""
    if "tensorwise" in text or "swap" in text:
        return "tensorwise"
    match = re.search(r"(optim|activation|param)[a-z]*(:.*)?", text.strip())
    names = {"optim": "optimizer", "activation": "activations", "param": "params"}
    return names[match[1]] + (match[2] or "") if match else ""


def parse_recompute(row: Row) -> Recompute:
    """Return the recompute column: full, none, block:N for the first N layers of a stage, selective, or selective:
    and names of Megatron's modules (--recompute-modules)."""
    word = (row.get("recompute") or "none").strip().lower()
    kind, _unused, count = word.partition(":")
    if kind == "block" and count.isdigit():
        return Recompute(kind, int(count))
    if word.startswith("selective"):
        return Recompute("selective", modules=frozenset(re.split(r"[+,\s]+", count)) - {""})
    return Recompute("full" if word in FULL_RECOMPUTE else "none")


def prepare_base(job: PlannedJob) -> PlannedJob:
    """Return the job with what PEFT's preparation of a quantised base switches on where the row is silent: recompute.

    use_gradient_checkpointing is True by default (peft/utils/other.py, prepare_model_for_kbit_training); frameworks
    that call it pass an option of their own.
    """
    silent = "recompute" in job.open_inputs and is_lifted(job) and not job.framework.prepares
    return open_inputs.settle_inputs(replace(job, recompute=Recompute("full")), "recompute") if silent else job


def parse_length(row: Row) -> int:
    """Return the length of the longest sample, in tokens."""
    length = max(1, parse_integer(row, "seq_len", 2048))
    if row.get("seq_kind") == "truncated_long_data" and length > FILLED:
        return int(FILLED * (length / FILLED) ** FILL_POWER + 0.5)
    return length


def parse_meter(row: Row) -> str:
    """Return how the row's memory was measured: reserved, allocated, or smi (the vendor's tool)."""
    text = (row.get("metric") or "").lower()
    if "reserved" in text:
        return "reserved"
    return "allocated" if "alloc" in text or "active" in text else "smi"


def parse_targets(row: Row, model: Model) -> str:
    """Return the smallest set of modules with all targets; all linear layers for unknown ones, the largest set."""
    words = re.split(r"[+,;\s]+", (row.get("lora_targets") or "").strip())
    known = {name.lower(): name for name in option_words.list_legal_targets(model)}
    wanted = [known.get(word.lower(), word) for word in words]
    try:
        return option_words.parse_targets(",".join(wanted), model)[0]
    except UsageError:
        return "all-linear"


def parse_training(row: Row, model: Model) -> dict[str, Any]:
    """Return the fields of `PlannedJob` for method, adapters, quantised base and preference training."""
    method = (row.get("method") or "full").lower()
    adapters = any(word in method for word in ADAPTED)
    quant = (row.get("quant") or "").strip().lower()
    if quant in NONE or VOCABULARIES["quant"].find_unknown(quant):
        quant = ""
    quant = quant or ("bnb-nf4" if "qlora" in method else "")
    pairs = method.startswith(("dpo", "simpo", "orpo", "cpo", "rm")) and not parse_flag(row, "packing")
    words = re.split(r"[+,;\s]+", (row.get("modules_to_save") or "").lower())
    saved = tuple(dict.fromkeys(SAVED[word] for word in words if word in SAVED))
    return {
        "method": "lora" if adapters else "full",
        "pairs": pairs,
        "reference": method.startswith(("dpo-full", "kto-full", "ppo", "grpo-full")),
        "quant": quant if adapters else "",
        "adapter": Adapter(
            parse_integer(row, "lora_rank", option_words.ADAPTER_RANK), parse_targets(row, model), saved
        ),
    }


def describe_assumptions(row: Row, job: PlannedJob) -> Message | None:
    """Return what empty cells were taken as; None if there are none.

    In a table an empty cell means that the run did not have the feature; plan assumes what most recipes set.  A
    named card has its own memory.
    """
    values: dict[str, str | int] = {
        "framework": job.framework.name,
        "method": job.method,
        "device": job.device.name,
        "cards": job.layout.cards,
        "tp": job.layout.tp,
        "pp": job.layout.pp,
        "sharding": job.sharding,
        "seq_len": job.seq_len,
        "micro_batch": job.micro_batch,
        "recompute": job.recompute.kind,
        "seq_parallel": int(job.splits_sequence),
        "fused_ce": int(job.fused_loss),
    }
    values |= {} if (row.get("device") or "").strip() else {"device_mem_gib": f"{job.memory_gib:g}"}
    values |= {} if job.trains_all else {"lora_rank": job.adapter.rank}
    empty = [f"{name} {value}" for name, value in values.items() if (row.get(name) or "").strip() in UNSAID]
    return _("assumed for empty cells: {values}", values=join(", ", empty)) if empty else None


def list_open_inputs(row: Row) -> frozenset[str]:
    """Return the names of the inputs that the row leaves open."""
    return frozenset(
        name
        for name in open_inputs.NAMES
        if all((row.get(key) or "").strip() in UNSAID for key in COLUMNS_OF_INPUT.get(name, (name,)))
    )


def build_row_job(row: Row) -> PlannedJob:
    """Return the job of a row; UsageError if it is invalid."""
    f = size_buckets(find_row_framework(row), row)
    kind = row.get("seq_kind") or ""
    device = devices.find_device(row.get("device") or "")
    away = parse_offload(row)
    model, laid = adapt_model(row_models.find_row_model(row), f), parse_layout(row)
    if repeats_shards(row):
        laid = replace(laid, shard_group=max(1, device.cards_per_node // (laid.tp * laid.pp)))
    if laid.pp > model.layers:
        raise UsageError(
            _("pp {pp} exceeds the layers of {name}", pp=laid.pp, name=model.name),
            _("use at most {layers} stages", layers=model.layers),
        )
    job = PlannedJob(
        model=model,
        framework=f,
        device=device,
        memory_gib=device.correct_memory(parse_number(row, "device_mem_gib") or device.memory_gib),
        layout=laid,
        precision=parse_precision(row, f),
        sharding=parse_sharding(row),
        offload=away.kinds,
        offload_share=away.share,
        offload_layers=away.layers,
        recompute=parse_recompute(row),
        seq_len=parse_length(row),
        varying_lengths=kind in VARYING,
        length_known=kind not in LONGEST_UNKNOWN,
        micro_batch=max(1, parse_integer(row, "micro_batch", 1)),
        grad_accum=parse_integer(row, "grad_accum") or None,
        flash=parse_flag(row, "flash_attn", default=True),
        half=(row.get("weight_dtype") or "").strip().lower() in HALF,
        fused_loss=parse_flag(row, "fused_ce"),
        sequence_parallel=parse_flag(row, "seq_parallel"),
        dropout=parse_number(row, "dropout"),
        compiled=parse_flag(row, "compile"),
        optimizer=row.get("optimizer") or "adamw",
        expandable=parse_flag(row, "expandable_segments"),
        meter=parse_meter(row),
        meter_known=(row.get("metric") or "").strip().lower() not in UNSAID,
        last_rank="last rank" in (row.get("rank_reported") or ""),
        first_iteration=(row.get("reading_phase") or "") == "after first iteration",
        open_inputs=list_open_inputs(row),
        framework_known=has_known_loop(row),
        **parse_training(row, model),
    )
    return cast_adapters(prepare_base(job))
