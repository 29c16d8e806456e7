"""Words in the columns of a table of jobs: which are known, and which a row has that are not.

An unknown word leaves a figure, computed as if the cell were empty, and no verdict; so does a row without
a length, or without a card and its memory.  A framework or card that is not in the tables is named as well; it has
wider bounds, and so a verdict, but not a card of unknown memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from envcheck.core.messages import Message, _, fill
from envcheck.vendors import VENDORS
from launch.catalogue import devices, frameworks
from launch.memory.quantised import BYTES as QUANTISED
from launch.planner import option_words
from launch.planner.option_words import ALL, LATENT, MODULES, QUANTS, SETS

# Words in the names of methods with a frozen base model.
ADAPTED = ("lora", "dora", "bone", "lisa", "llamapro", "ia3", "prefix", "prompt", "p-tun", "ptun", "adapter", "freeze")
METHODS = frozenset({
    *option_words.FULL, *option_words.PREFERENCE, *option_words.TUNERS, "cpo", "rm", "reward", "ppo", "grpo", "rlhf",
    "distill", "galore", "adalora", "rslora", "pissa", "bone", "lisa", "llamapro", "ia3", "prefix", "prompt", "ptuning",
    "p", "tuning", "adapter", "adapters", "freeze", "fp8", "qat", "finetune", "pretraining",
})  # fmt: skip
# Modules of `modules_to_save`, by their names in checkpoints.
SAVED = {
    "embed": "embed", "embed_tokens": "embed", "wte": "embed", "word_embeddings": "embed", "tok_embeddings": "embed",
    "head": "head", "lm_head": "head", "output": "head", "embed_out": "head",
}  # fmt: skip
NONE = ("none", "no", "off", "0", "0.0", "false")
FULL_RECOMPUTE = ("full", "all", "yes", "on", "1", "1.0", "true")
FLAGS = (*NONE, "yes", "on", "1", "1.0", "true")
OPTIMIZERS = frozenset({
    "adam", "adamw", "adam8bit", "adamw8bit", "adamw4bit", "adafactor", "lion", "muon", "sgd", "galore", "8bit", "4bit",
    "32bit", "bnb", "paged", "torch", "fused", "foreach", *VENDORS, "apex", "deepspeed", "cpu", "dist", "bf16", "low",
    "precision", "moments",
    "per", "parameter", "layerwise", "backward", "bwd", "lomo", "adalomo", "anyprecision",
})  # fmt: skip
MEGATRON_MODULES = "core_attn|moe_act|moe|layernorm|mlp|mla_up_proj|shared_experts"
UNSAID = ("", "unspecified")  # cells that leave an input open
TYPES = ("fp32", "tf32", "bf16", "fp16", "fp8", "int8", "float32", "bfloat16", "float16", "half")


@dataclass(frozen=True)
class Vocabulary:
    """The known words of a column: `words`, and what matches `pattern`, after splitting the cell at `apart`."""

    words: frozenset[str] = frozenset()
    pattern: str = r"(?!)"
    apart: str = r"(?!)"

    def find_unknown(self, cell: str) -> str:
        """Return the first unknown word of a cell, "" if there is none."""
        parts = (part.strip() for part in re.split(self.apart, cell.strip().lower()))
        return next((p for p in parts if p and p not in self.words and not re.fullmatch(self.pattern, p)), "")


_FLAG = Vocabulary(frozenset(FLAGS))
_TYPE = Vocabulary(frozenset(TYPES))
VOCABULARIES: Mapping[str, Vocabulary] = {
    "method": Vocabulary(METHODS, apart=r"[-_+/ ]"),
    # Words that mean something only together stay together: a lone "opt" or "shard" says nothing.
    "sharding": Vocabulary(
        frozenset({*NONE, "ddp", "dp", "tp", "pp", "ep", "full", "paddle"}),
        r"dist(ributed)?([-_ ]?opt(imizer)?)?|(stage|zero)[-_ ]?[0-3](\+\+)?|[fh]sdp[12]?|hybrid"
        r"|(full|hybrid)[-_ ]shard([-_ ]zero2)?|shard[-_ ]grad[-_ ]op",
        r"[+,/()]|(?<!dist)(?<!distributed)(?<!full)(?<!hybrid)(?<!shard)(?<!grad)[-_ ](?![0-3])",
    ),
    "offload": Vocabulary(
        frozenset({*NONE, "tensorwise", "swap"}),
        r"(optim(izer)?|param(eter)?s?|activations?)((\((tensorwise|swap)\))|(:\d*\.?\d+))?",
        r"[+,]",
    ),
    "recompute": Vocabulary(
        frozenset({*NONE, *FULL_RECOMPUTE, *UNSAID}), rf"selective(:({MEGATRON_MODULES}|[+,\s])+|[^:]*)|block:\d+"
    ),
    "lora_targets": Vocabulary(
        frozenset(name.lower() for name in (*SETS, *MODULES, *LATENT, *ALL)), apart=r"[+,;\s]+"
    ),
    "modules_to_save": Vocabulary(frozenset({*SAVED, "none"}), apart=r"[+,;\s]+"),
    "quant": Vocabulary(frozenset({*NONE, *QUANTISED, *QUANTS, *QUANTS.values()})),
    "optimizer": Vocabulary(
        OPTIMIZERS, r"in[-_ ](backward|bwd)", r"[-_+() ]+(?!backward|bwd)|(?<!\bin)(?<!_in)[-_+() ]+"
    ),
    "weight_dtype": _TYPE,
    "grad_dtype": _TYPE,
    "master_weights": _FLAG,
    "flash_attn": _FLAG,
    "fused_ce": _FLAG,
    "seq_parallel": _FLAG,
    "compile": _FLAG,
    "packing": _FLAG,
    "tied": _FLAG,
    "expandable_segments": _FLAG,
    "device_map": Vocabulary(frozenset({"naive_layer_split", "naive_layer_split_x2", "auto", "balanced", "none"})),
    "seq_kind": Vocabulary(
        frozenset({"exact", "packed", "cap", "short_data", "truncated_long_data", "longest_sample"})
    ),
    "metric": Vocabulary(pattern=r".*(reserved|alloc|active|smi|unspecified).*"),
    "reading_phase": Vocabulary(frozenset({"after first iteration", "steady state"})),
    "rank_reported": Vocabulary(pattern=r".*(rank|max).*"),
    "mlp_kind": Vocabulary(frozenset({"gated", "2-matrix", "2-matrix+bias"})),
    "mla": Vocabulary(frozenset(NONE), r"q\d+:kv\d+:nope\d+:rope\d+:v\d+"),
}  # fmt: skip


def list_unknown_words(row: Mapping[str, str]) -> Iterator[Message]:
    """Yield a message for each cell with a word that is ignored: the figure may be right, there is no verdict."""
    for key, known in VOCABULARIES.items():
        if word := known.find_unknown(row.get(key) or ""):
            yield _("{key} {value!r} is unknown and was ignored", key=key, value=word)


def list_unknown_cards(row: Mapping[str, str]) -> Iterator[Message]:
    """Yield a message for a card that is not in the table if the row has no memory size: there is no verdict."""
    text = (row.get("device") or "").strip()
    if text and not _has_memory(row) and (like := devices.find_device(text).figures_of):
        yield _(
            "device {value!r} is not in the device table: planned with the figures and the memory of {name}; "
            "set device_mem_gib for a verdict",
            value=text,
            name=fill(like),
        )


def list_missing_sizes(row: Mapping[str, str]) -> Iterator[Message]:
    """Yield a message for each empty cell without which there is no verdict: the memory of a card, and the length."""
    if not (row.get("device") or "").strip() and not _has_memory(row):
        yield _("device and device_mem_gib are empty; set one of them for a verdict")
    if not (row.get("seq_len") or "").strip():
        yield _("seq_len is empty; set it for a verdict")


def list_unlisted_names(row: Mapping[str, str]) -> Iterator[Message]:
    """Yield a message for a framework or a card that is planned like another one."""
    name = (row.get("framework") or "").strip()
    found = frameworks.find_framework(name)
    if name and not found:
        yield _("framework {value!r} is unknown: planned as a trainer with the row's layout", value=name)
    if name and found and found.is_library:
        yield _("framework {value!r} is a library: its loop is planned as that of a Hugging Face trainer", value=name)
    text = (row.get("device") or "").strip()
    if text and _has_memory(row) and (like := devices.find_device(text).figures_of):
        yield _(
            "device {value!r} is not in the device table: planned with the figures of {name}",
            value=text,
            name=fill(like),
        )


def describe_missing_framework(row: Mapping[str, str]) -> Message | None:
    """Return why a row without a framework has wide bounds, and often no verdict."""
    if (row.get("framework") or "").strip():
        return None
    return _("no framework is named: planned as a trainer with the row's layout, with wider bounds")


def _has_memory(row: Mapping[str, str]) -> bool:
    return bool((row.get("device_mem_gib") or "").strip())
