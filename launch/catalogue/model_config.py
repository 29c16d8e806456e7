"""Read a model's dimensions from the config.json of a Hugging Face-style folder, and list the assumptions made."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from envcheck.core.messages import Message, _, join
from launch.catalogue import families, towers
from launch.catalogue.architecture import Mla, Model, Moe
from launch.catalogue.config_file import (
    MAX_NUMBER,
    MODEL_NAMES,
    NAMES,
    ConfigNumberReader,
    has_cap,
    load_config,
    read_flag,
)

INNER = ("text_config", "llm_config", "language_config", "thinker_config")
NESTED = ("attn_config", "ffn_config")  # DBRX, MPT

FLAGS = ("attention_bias", "attention_out_bias", "add_qkv_bias", "qkv_bias", "use_qkv_bias", "mlp_bias",
         "add_bias_linear", "use_qk_norm", "qk_layernorm", "tie_word_embeddings", "multi_query", "bias", "use_bias",
         "no_bias", "lm_head_bias")  # fmt: skip
# Further fields with one value that are read here and by families.
TRAITS = ("model_type", "hidden_act", "activation_function", "rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon",
          "is_moe", "new_decoder_architecture", "use_parallel_residual", "final_logit_softcapping",
          "attn_logit_softcapping", "rotary_pct", "partial_rotary_factor")  # fmt: skip
# All fields of a language model that have one value, without those of layer kinds and rope_parameters.
PLAIN_FIELDS = frozenset((*FLAGS, *TRAITS, *(key for keys in MODEL_NAMES.values() for key in keys)))
READ = {name for names in NAMES.values() for name in names} | {*FLAGS, *INNER, *NESTED, "vision_config"}
# Numbers that look like dimensions but add no parameters.
HARMLESS = re.compile(
    r"(^use_|^max_|_token|_id$|_ids$|^pretraining_tp|_eps|_std|init|rope|rotary|window|cache|dropout|group|num_labels"
    r"|_layer_end_index|_capacity|aux|chunk|^n_ctx$|word_embed_proj_dim|beams|quant|_factor|_scale|deepstack|version)"
)
# Fields of state-space, recurrent, convolution and linear-attention layers, and of Gemma's per-layer embeddings.
FOREIGN = re.compile(
    r"^(mamba_|ssm_|state_size|lru_|conv_L|linear_(key|value|num|conv|head)|laurel_|hidden_size_per_layer"
    r"|attn_layer_(period|offset)|hybrid_override|n_mamba|time_mix|num_layers_per_stack)"
)
KINDS = ("layer_types", "layers_block_type", "block_types")
SIZED = re.compile(r"(hidden|dim|rank|head|layer|expert|size|ffn|inner|width|embed)")


def read_model(place: Path, name: str = "") -> Model:
    """Return the model of a folder or a config.json, by default named after it; UsageError if it is invalid."""
    path = place / "config.json" if place.is_dir() else place
    return parse_model(load_config(path), name or str(place.name or path.parent.name), str(path))


def list_folder_assumptions(place: Path) -> list[Message]:
    """Return the assumptions made for the model of a folder."""
    return list_assumptions(load_config(place / "config.json" if place.is_dir() else place))


def select_text_fields(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of the language model, also inside a vision-language configuration, with class defaults."""
    inner: dict[str, Any] = next((data[k] for k in INNER if isinstance(data.get(k), dict)), {})
    text: dict[str, Any] = {**data, **inner}
    for key in NESTED:
        if isinstance(text.get(key), dict):
            text |= {k: v for k, v in text[key].items() if k != "model_type"}
    return {**families.find_family(text).defaults, **text}


def parse_model(data: Mapping[str, Any], name: str, where: str) -> Model:
    """Return the model of a configuration; `where` is its path in messages.  Raises UsageError for invalid sizes."""
    text = select_text_fields(data)
    like = families.find_family(text)
    get = ConfigNumberReader(text, where)
    hidden, heads, layers = get.require_number("hidden"), get.require_number("heads"), get.require_number("layers")
    one = text.get("multi_query") is True and text.get("new_decoder_architecture") is not True  # Falcon, GPT-BigCode
    kv_heads = 1 if one else get("kv_heads") or heads
    get.check_maximum("heads", heads, hidden if not get("head_dim") else MAX_NUMBER)
    get.check_maximum("kv_heads", kv_heads, heads)
    ffn = (get("ffn") or hidden * (get("mlp_ratio") or 4)) // like.ffn_parts
    moe = parse_mixture(get, like, layers)
    plain = read_flag(text, ("bias", "use_bias"), like.qkv_bias) if "no_bias" not in text else False
    attention = read_flag(text, ("attention_bias", "add_qkv_bias", "qkv_bias", "use_qkv_bias"), plain or like.qkv_bias)
    positions = get("max_positions")
    return Model(
        name=name,
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=get("head_dim") or hidden // heads,
        ffn=get("dense_ffn") or ffn,
        vocab=get.require_number("vocab"),
        tied=bool(text.get("tie_word_embeddings", data.get("tie_word_embeddings", like.tied))),
        gated=like.gated,
        norm=like.norm,
        norms=2 if like.norms == 1 and text.get("new_decoder_architecture") is True else like.norms,
        qkv_bias=attention,
        out_bias=like.out_follows and read_flag(text, ("attention_out_bias", "attention_bias"), like.out_bias or plain),
        mlp_bias=read_flag(text, ("mlp_bias", "add_bias_linear", "bias", "use_bias"), like.mlp_bias),
        head_bias=read_flag(text, ("lm_head_bias",), like.head_bias),
        qk_norm=read_flag(text, ("use_qk_norm", "qk_layernorm"), bool(like.qk_norm))
        and text.get("model_type") != "llama4_text",
        qk_norm_whole=like.qk_norm == "all",
        sinks=like.sinks,
        caps_logits=has_cap(text, "final_logit_softcapping", where),
        caps_scores=has_cap(text, "attn_logit_softcapping", where),
        fp32_scale=like.fp32_scale,
        learned_positions=positions + like.positions if like.positions >= 0 else like.embedding_rows,
        max_positions=positions,
        sliding_window=get("window"),
        some_windows=mixes_window_layers(text.get("layer_types")),
        mtp_layers=get("mtp"),
        moe=moe,
        mla=parse_latent_attention(get, hidden // heads),
        vision_params=count_vision_params(data, where, hidden),
        foreign=find_unmodelled_field(text),
        parallel=read_flag(text, ("use_parallel_residual",), like.parallel),
        fused_qkv=like.fused_qkv,
        partly_rotated=rotates_partly(text),
        chained_gelu=str(text.get("hidden_act") or text.get("activation_function")) in families.CHAINED,
        source=where,
    )


def parse_mixture(get: ConfigNumberReader, like: families.ModelFamily, layers: int) -> Moe | None:
    """Return the experts, None for a dense model; layers without experts are counted as the first layers."""
    experts = get.read_numbers("experts")[:1]
    if not experts or experts[0] < 2 or get.data.get("is_moe") is False:
        return None
    ffns = get.read_numbers("expert_ffn") or [get("ffn") // like.ffn_parts]
    active = max(1, get("active"))
    get.check_maximum("active", active, experts[0])
    mixed = sum(
        i >= get("first_dense") and (i + 1) % max(1, get("every")) == 0 and i not in list_dense_layers(get.data)
        for i in range(layers)
    )
    vision = get.read_numbers("experts")[1:2]
    shared = get("shared") or (1 if get("dense_ffn") else 0)
    return Moe(
        experts=experts[0],
        active=active,
        ffn=ffns[0],
        shared_ffn=get("shared_ffn") or shared * ffns[0],
        first_dense=layers - mixed,
        shared_gate="shared_expert_intermediate_size" in get.data,
        router_bias=like.router_bias,
        expert_bias=like.expert_bias,
        fp32_weights=like.fp32_weights,
        vision_experts=vision[0] if vision else 0,
        vision_ffn=ffns[-1] if vision else 0,
    )


def mixes_window_layers(kinds: object) -> bool:
    """Whether some layers have a sliding window and others do not."""
    return isinstance(kinds, list) and "sliding_attention" in kinds and "full_attention" in kinds


def rotates_partly(text: Mapping[str, Any]) -> bool:
    """Whether the rotary embedding turns only a part of each head."""
    rope = text.get("rope_parameters")
    shares = [text.get(key) for key in ("rotary_pct", "partial_rotary_factor")]
    shares.insert(0, rope.get("partial_rotary_factor") if isinstance(rope, dict) else None)
    share = next((one for one in shares if isinstance(one, float)), 1.0)
    return 0 < share < 1


def list_dense_layers(data: Mapping[str, Any]) -> list[int]:
    """Return the layers that the configuration lists as dense."""
    named, kinds = data.get("mlp_only_layers"), data.get("mlp_layer_types")
    found = [n for n in named if isinstance(n, int)] if isinstance(named, list) else []
    return found + ([n for n, kind in enumerate(kinds) if kind == "dense"] if isinstance(kinds, list) else [])


def find_unmodelled_field(text: Mapping[str, Any]) -> str:
    """Return the first field or layer type that is not modelled, "" if all are."""
    lists = (text.get(key) for key in KINDS)
    kinds = [str(kind) for listing in lists if isinstance(listing, list) for kind in listing]
    odd = next((kind for kind in kinds if not kind.endswith("attention") or kind.startswith("linear")), "")
    return odd[:60] or next((key[:60] for key, value in text.items() if FOREIGN.match(key) and value), "")


def parse_latent_attention(get: ConfigNumberReader, usual: int) -> Mla | None:
    """Return latent attention, None without; values default to the usual head size (MiniCPM3)."""
    kv, nope, rope = get("kv_rank"), get("nope"), get("rope")
    if not (kv and nope and rope):
        return None
    return Mla(get("q_rank"), kv, nope, rope, get("value") or usual, get("index_heads"), get("index_dim"))


def count_vision_params(data: Mapping[str, Any], where: str, hidden: int) -> int:
    """Return the parameters of the vision tower, 0 without one; `hidden` is the width of the language model."""
    tower = data.get("vision_config")
    if not isinstance(tower, dict):
        return 0
    kind = str(tower.get("model_type") or data.get("model_type") or "").lower()
    if kind not in towers.TOWERS:
        kind = str(data.get("model_type") or "").lower()
    deep = tower.get("deepstack_visual_indexes")
    return towers.count_params(
        ConfigNumberReader(tower, f"{where}: vision_config"), kind, hidden, len(deep) if isinstance(deep, list) else 0
    )


def list_assumptions(data: Mapping[str, Any]) -> list[Message]:
    """Return the assumptions made for unknown types, missing sizes and ignored fields."""
    text = select_text_fields(data)
    kind, found = families.resolve_family_name(text), []
    if kind not in families.FAMILIES:
        name = kind[:60] or _("(none)")
        found.append(
            _("model type {kind}: unknown, planned like Llama", kind=name)
            if families.guess_family(text).gated
            else _("model type {kind}: unknown, planned like Llama with two matrices per MLP", kind=name)
        )
    if families.find_family(text).defaults and any(
        key not in {**data, **(data.get("text_config") or {})} for key in ("vocab_size",)
    ):
        found.append(_("missing sizes: defaults of the transformers class for {kind}", kind=kind))
    odd = [k for k, v in text.items() if isinstance(v, int) and not isinstance(v, bool) and v > 1 and is_unread_size(k)]
    if odd:
        found.append(
            _(
                "unknown fields, not counted: {odd}",
                odd=join(", ", (f"{k[:40]} = {text[k]}" for k in sorted(odd)[:6])),
            )
        )
    if find_unmodelled_field(text):
        found.append(
            _(
                "{layers}: estimated as attention layers; the real size may be half or twice as large",
                layers=find_unmodelled_field(text),
            )
        )
    if ConfigNumberReader(text, "").read_numbers("every")[:1] not in ([], [0], [1]):
        found.append(_("layers without experts: counted as the first layers"))
    tower = data.get("vision_config")
    if isinstance(tower, dict) and not {str(tower.get("model_type")).lower(), str(data.get("model_type")).lower()} & {
        *towers.TOWERS
    }:
        found.append(_("vision tower: counted without its projection into the language model"))
    return found


def is_unread_size(key: str) -> bool:
    """Whether a key looks like a dimension but is not read."""
    return key not in READ and bool(SIZED.search(key)) and not HARMLESS.search(key)
