"""A model's shape from the config.json of a Hugging Face-style folder; what it leaves open is assumed and said."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from launch.catalogue import families, towers
from launch.catalogue.architecture import Mla, Model, Moe
from launch.catalogue.config_file import LIMIT, NAMES, Reader, cap, flag, load

INNER = ("text_config", "llm_config", "language_config", "thinker_config")
NESTED = ("attn_config", "ffn_config")  # DBRX, MPT

FLAGS = ("attention_bias", "attention_out_bias", "add_qkv_bias", "qkv_bias", "use_qkv_bias", "mlp_bias",
         "add_bias_linear", "use_qk_norm", "qk_layernorm", "tie_word_embeddings", "multi_query", "bias", "use_bias",
         "no_bias", "lm_head_bias")  # fmt: skip
READ = {name for names in NAMES.values() for name in names} | {*FLAGS, *INNER, *NESTED, "vision_config"}
# Numbers that look like dimensions and make no parameters.
HARMLESS = re.compile(
    r"(^use_|^max_|_token|_id$|_ids$|^pretraining_tp|_eps|_std|init|rope|rotary|window|cache|dropout|group|num_labels"
    r"|_layer_end_index|_capacity|aux|chunk|^n_ctx$|word_embed_proj_dim|beams|quant|_factor|_scale|deepstack|version)"
)
# State-space, recurrent, convolution and linear-attention layers, and Gemma's embeddings of every layer.
FOREIGN = re.compile(
    r"^(mamba_|ssm_|state_size|lru_|conv_L|linear_(key|value|num|conv|head)|laurel_|hidden_size_per_layer"
    r"|attn_layer_(period|offset)|hybrid_override|n_mamba|time_mix|num_layers_per_stack)"
)
KINDS = ("layer_types", "layers_block_type", "block_types")
SIZED = re.compile(r"(hidden|dim|rank|head|layer|expert|size|ffn|inner|width|embed)")


def read(place: Path) -> Model:
    """The model of a folder or of a config.json itself."""
    path = place / "config.json" if place.is_dir() else place
    return parse(load(path), str(place.name or path.parent.name), str(path))


def said(place: Path) -> list[str]:
    """What was taken for granted of the folder's model."""
    return assumptions(load(place / "config.json" if place.is_dir() else place))


def text_of(data: Mapping[str, Any]) -> dict[str, Any]:
    """The language model's fields: those inside a vision-language configuration first, then its class's own."""
    inner: dict[str, Any] = next((data[k] for k in INNER if isinstance(data.get(k), dict)), {})
    text: dict[str, Any] = {**data, **inner}
    for key in NESTED:
        if isinstance(text.get(key), dict):
            text |= {k: v for k, v in text[key].items() if k != "model_type"}
    return {**families.family(text).defaults, **text}


def parse(data: Mapping[str, Any], name: str, where: str) -> Model:
    """The shape; a text tower inside a vision-language configuration is found under text_config."""
    text = text_of(data)
    like = families.family(text)
    get = Reader(text, where)
    hidden, heads, layers = get.need("hidden"), get.need("heads"), get.need("layers")
    one = text.get("multi_query") is True and text.get("new_decoder_architecture") is not True  # Falcon, GPT-BigCode
    kv_heads = 1 if one else get("kv_heads") or heads
    get.check("heads", heads, hidden if not get("head_dim") else LIMIT)
    get.check("kv_heads", kv_heads, heads)
    ffn = (get("ffn") or hidden * (get("mlp_ratio") or 4)) // like.ffn_parts
    moe = mixture(get, like, layers)
    plain = flag(text, ("bias", "use_bias"), like.qkv_bias) if "no_bias" not in text else False
    attention = flag(text, ("attention_bias", "add_qkv_bias", "qkv_bias", "use_qkv_bias"), plain or like.qkv_bias)
    positions = get("max_positions")
    return Model(
        name=name,
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=get("head_dim") or hidden // heads,
        ffn=get("dense_ffn") or ffn,
        vocab=get.need("vocab"),
        tied=bool(text.get("tie_word_embeddings", data.get("tie_word_embeddings", like.tied))),
        gated=like.gated,
        norm=like.norm,
        norms=2 if like.norms == 1 and text.get("new_decoder_architecture") is True else like.norms,
        qkv_bias=attention,
        out_bias=like.out_follows and flag(text, ("attention_out_bias", "attention_bias"), like.out_bias or plain),
        mlp_bias=flag(text, ("mlp_bias", "add_bias_linear", "bias", "use_bias"), like.mlp_bias),
        head_bias=flag(text, ("lm_head_bias",), like.head_bias),
        qk_norm=flag(text, ("use_qk_norm", "qk_layernorm"), bool(like.qk_norm))
        and text.get("model_type") != "llama4_text",
        qk_norm_whole=like.qk_norm == "all",
        sinks=like.sinks,
        caps_logits=cap(text, "final_logit_softcapping", where),
        caps_scores=cap(text, "attn_logit_softcapping", where),
        fp32_scale=like.fp32_scale,
        learned_positions=positions + like.positions if like.positions >= 0 else like.embedding_rows,
        max_positions=positions,
        sliding_window=get("window"),
        some_windows=mixed(text.get("layer_types")),
        mtp_layers=get("mtp"),
        moe=moe,
        mla=latent(get, hidden // heads),
        vision_params=vision(data, where, hidden),
        foreign=foreign(text),
        source=where,
    )


def mixture(get: Reader, like: families.Family, layers: int) -> Moe | None:
    """Experts; where they do not stand in every layer behind the first, the plain layers are counted as the first."""
    experts = get.numbers("experts")[:1]
    if not experts or experts[0] < 2 or get.data.get("is_moe") is False:
        return None
    ffns = get.numbers("expert_ffn") or [get("ffn") // like.ffn_parts]
    active = max(1, get("active"))
    get.check("active", active, experts[0])
    mixed = sum(
        i >= get("first_dense") and (i + 1) % max(1, get("every")) == 0 and i not in listed(get.data)
        for i in range(layers)
    )
    vision = get.numbers("experts")[1:2]
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


def mixed(kinds: object) -> bool:
    """Whether layer_types names layers with a sliding window and others without one."""
    return isinstance(kinds, list) and "sliding_attention" in kinds and "full_attention" in kinds


def listed(data: Mapping[str, Any]) -> list[int]:
    """Layers that are named as plain ones."""
    named, kinds = data.get("mlp_only_layers"), data.get("mlp_layer_types")
    found = [n for n in named if isinstance(n, int)] if isinstance(named, list) else []
    return found + ([n for n, kind in enumerate(kinds) if kind == "dense"] if isinstance(kinds, list) else [])


def foreign(text: Mapping[str, Any]) -> str:
    """The first field that tells of layers, or of embeddings in each layer, that are not modelled; empty where none
    does."""
    lists = (text.get(key) for key in KINDS)
    kinds = [str(kind) for listing in lists if isinstance(listing, list) for kind in listing]
    odd = next((kind for kind in kinds if not kind.endswith("attention") or kind.startswith("linear")), "")
    return odd[:60] or next((key[:60] for key, value in text.items() if FOREIGN.match(key) and value), "")


def latent(get: Reader, usual: int) -> Mla | None:
    """Multi-head latent attention; values as wide as a head where nothing is said (MiniCPM3)."""
    kv, nope, rope = get("kv_rank"), get("nope"), get("rope")
    if not (kv and nope and rope):
        return None
    return Mla(get("q_rank"), kv, nope, rope, get("value") or usual)


def vision(data: Mapping[str, Any], where: str, hidden: int) -> int:
    tower = data.get("vision_config")
    if not isinstance(tower, dict):
        return 0
    kind = str(tower.get("model_type") or data.get("model_type") or "").lower()
    if kind not in towers.TOWERS:
        kind = str(data.get("model_type") or "").lower()
    deep = tower.get("deepstack_visual_indexes")
    return towers.count(
        Reader(tower, f"{where}: vision_config"), kind, hidden, len(deep) if isinstance(deep, list) else 0
    )


def assumptions(data: Mapping[str, Any]) -> list[str]:
    """What a configuration of an unknown type, or fields that are not read, made us take for granted."""
    text = text_of(data)
    kind, found = families.kind_of(text), []
    if kind not in families.FAMILIES:
        like = families.guessed(text)
        two = "" if like.gated else ", two matrices in an MLP"
        found.append(f"model type {(kind or 'unknown')[:60]}: modules are taken as Llama's{two}")
    if families.family(text).defaults and any(
        key not in {**data, **(data.get("text_config") or {})} for key in ("vocab_size",)
    ):
        found.append(f"sizes that the file leaves out: those of transformers' class for {kind}")
    odd = [k for k, v in text.items() if isinstance(v, int) and not isinstance(v, bool) and v > 1 and unread(k)]
    if odd:
        found.append(f"not counted, since not known: {', '.join(f'{k[:40]} = {text[k]}' for k in sorted(odd)[:6])}")
    if foreign(text):
        found.append(f"{foreign(text)}: counted as layers of attention, which may be half or twice as large")
    if Reader(text, "").numbers("every")[:1] not in ([], [0], [1]):
        found.append("layers without experts are counted as the first ones")
    tower = data.get("vision_config")
    if isinstance(tower, dict) and not {str(tower.get("model_type")).lower(), str(data.get("model_type")).lower()} & {
        *towers.TOWERS
    }:
        found.append("vision tower: counted by its layers, without what joins it to the language model")
    return found


def unread(key: str) -> bool:
    return key not in READ and bool(SIZED.search(key)) and not HARMLESS.search(key)
