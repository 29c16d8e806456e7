"""What Megatron-LM and MindSpeed-LLM reject before the training starts, and how they divide layers into chunks.

Source: Megatron-LM's megatron/training/arguments.py, validate_args and the choices of its options.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from envcheck.core.messages import Message, _, join
from envcheck.scripts.megatron_model import OptionReader

LAYERS, STAGES, CHUNK = "num_layers", "pipeline_model_parallel_size", "num_layers_per_virtual_pipeline_stage"
GRANULARITIES = ("full", "selective")
# Options with which the layers need not divide evenly into stages; num_layer_list is MindSpeed-LLM's.
_UNEVEN = (
    "decoder_first_pipeline_num_layers", "decoder_last_pipeline_num_layers", "account_for_embedding_in_pipeline_split",
    "account_for_loss_in_pipeline_split", "pipeline_model_parallel_layout", "hybrid_layer_pattern", "num_layer_list",
    "standalone_embedding_stage", "encoder_pipeline_model_parallel_size", "pipeline_model_parallel_split_rank",
)  # fmt: skip

_OF_CHECKPOINT = ("use_checkpoint_args", "use_mp_args_from_checkpoint_args")  # which replaces degrees and shapes


@dataclass(frozen=True)
class Refusal:
    """A reason to reject `options`, the first of which is to be changed.

    `value` is the job's value that they decide, as in own_job.LABELS.
    `is_default_decisive`: another option could change it, so it is certain only if all options are known.
    """

    options: tuple[str, ...]
    value: str
    reason: Message
    is_default_decisive: bool = False


def list_refusals(read: OptionReader) -> Iterator[Refusal]:
    """Yield what the program rejects of these options."""
    granularity = read("recompute_granularity")
    if granularity and granularity not in GRANULARITIES:
        legal = join(_(" or "), GRANULARITIES)
        reason = _("{option} {value}: expected {legal}", option="recompute_granularity", value=granularity, legal=legal)
        yield Refusal(("recompute_granularity",), "recompute", reason)
    if any(read(name) is not None for name in _OF_CHECKPOINT):
        return
    hidden, heads = _read_number("hidden_size", read), _read_number("num_attention_heads", read)
    if hidden and heads and hidden % heads and read("kv_channels") is None:
        reason = _("hidden_size {hidden} is not divisible by num_attention_heads {heads}", hidden=hidden, heads=heads)
        yield Refusal(("hidden_size", "num_attention_heads"), "model", reason, is_default_decisive=True)
    groups = _read_number("num_query_groups", read) if read("group_query_attention") is not None else 0
    if heads > groups > 0 and heads % groups:
        reason = _(
            "num_attention_heads {heads} is not divisible by num_query_groups {groups}", heads=heads, groups=groups
        )
        yield Refusal(("num_query_groups", "num_attention_heads"), "model", reason)
    layers, stages = _read_number(LAYERS, read), _read_number(STAGES, read)
    length, ranks = _read_number("seq_length", read), _read_number("context_parallel_size", read)
    if ranks > 1 and length % (2 * ranks) and read("context_parallel_algo") is None:
        reason = _("seq_length {length} is not divisible by 2 x context_parallel_size {cp}", length=length, cp=ranks)
        yield Refusal(("context_parallel_size", "seq_length"), "model", reason)
    positions = _read_number("max_position_embeddings", read)
    if length > positions > 0:
        reason = _("max_position_embeddings {most} is below seq_length {length}", most=positions, length=length)
        yield Refusal(("max_position_embeddings", "seq_length"), "model", reason)
    chunked = next((name for name in (CHUNK, "num_virtual_stages_per_pipeline_rank") if read(name) is not None), "")
    if chunked and read(STAGES) in (None, "1"):
        reason = _("{option} needs more than one pipeline stage", option=chunked)
        yield Refusal((chunked, STAGES), "vpp", reason, is_default_decisive=read(STAGES) is None)
    if not layers or not stages or any(read(name) is not None for name in _UNEVEN):
        return
    if layers % stages:
        reason = _("num_layers {layers} is not divisible by {stages} pipeline stages", layers=layers, stages=stages)
        yield Refusal((STAGES, LAYERS), "pp", reason, is_default_decisive=True)
    elif (chunk := _read_number(CHUNK, read)) and layers // stages % chunk:
        reason = _(
            "{option} {chunk} does not divide the {layers} layers of a pipeline stage",
            option=CHUNK,
            chunk=chunk,
            layers=layers // stages,
        )
        yield Refusal((CHUNK, STAGES, LAYERS), "vpp", reason)


def find_virtual_stages(read: OptionReader) -> tuple[str, int]:
    """Return the option that divides each pipeline stage into chunks, and their number; ("", 1) if none does."""
    if chunks := _read_number("num_virtual_stages_per_pipeline_rank", read):
        return "num_virtual_stages_per_pipeline_rank", chunks
    layers, stages, chunk = (_read_number(name, read) for name in (LAYERS, STAGES, CHUNK))
    if not (layers and stages and chunk) or layers % (stages * chunk):
        return "", 1
    return CHUNK, layers // (stages * chunk)


def _read_number(name: str, read: OptionReader) -> int:
    text = read(name) or ""
    return int(text) if re.fullmatch(r"\d{1,9}", text) else 0
