"""Reading a config.json: hostile input is normal, so size, kinds and ranges are checked before a number is used."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from envcheck.core.errors import UsageError

LARGEST = 16 << 20


LIMIT = 1 << 40


LIMITS = {"layers": 10_000, "hidden": 10**7, "heads": 10**6, "experts": 10**6, "ffn": 10**8, "vocab": 10**9}


# Our word: theirs, most usual first.  Sources: configuration classes of transformers 4.x and 5.x, PaddleFormers, GPT-2.
NAMES: dict[str, tuple[str, ...]] = {
    "layers": ("num_hidden_layers", "num_layers", "n_layer", "n_layers", "depth"),
    "hidden": ("hidden_size", "n_embd", "n_embed", "d_model", "dim"),
    "heads": ("num_attention_heads", "n_head", "n_heads", "num_heads"),
    "kv_heads": ("num_key_value_heads", "multi_query_group_num", "num_kv_heads", "n_head_kv", "kv_n_heads"),
    "head_dim": ("head_dim", "kv_channels"),
    "ffn": ("intermediate_size", "ffn_hidden_size", "n_inner", "ffn_dim"),
    "dense_ffn": ("intermediate_size_mlp",),
    "vocab": ("padded_vocab_size", "vocab_size"),
    "max_positions": ("max_position_embeddings", "seq_length", "n_positions", "max_seq_len", "model_max_length"),
    "experts": ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"),
    "active": ("num_experts_per_tok", "moe_k", "moe_topk", "num_experts_per_token", "moe_top_k"),
    "expert_ffn": ("moe_intermediate_size", "expert_ffn_hidden_size"),
    "shared": ("n_shared_experts", "moe_num_shared_experts", "num_shared_experts"),
    "shared_ffn": ("shared_expert_intermediate_size", "shared_intermediate_size"),
    "first_dense": ("first_k_dense_replace", "moe_layer_start_index", "num_dense_layers"),
    "every": ("decoder_sparse_step", "moe_layer_freq", "moe_layer_interval", "interleave_moe_layer_step"),
    "window": ("sliding_window",),
    "mtp": ("num_nextn_predict_layers", "mtp_num_layers"),
    "q_rank": ("q_lora_rank",),
    "kv_rank": ("kv_lora_rank",),
    "nope": ("qk_nope_head_dim",),
    "rope": ("qk_rope_head_dim",),
    "value": ("v_head_dim",),
    "mlp_ratio": ("mlp_ratio", "expansion_ratio"),
    # of a vision tower
    "embed": ("embed_dim",),
    "patch": ("patch_size",),
    "temporal": ("temporal_patch_size",),
    "channels": ("in_channels", "in_chans", "num_channels"),
    "merge": ("spatial_merge_size",),
    "image": ("image_size",),
    "position_count": ("num_position_embeddings",),
}


def load(path: Path) -> dict[str, Any]:
    """The object in the file: a regular file of at most LARGEST bytes, each key once, numbers that are numbers."""
    try:
        if path.exists() and not path.is_file():
            raise UsageError(f"{path} is no file", "give a model folder with a config.json, or a name")
        with path.open("rb") as file:
            text = file.read(LARGEST + 1)
        if len(text) > LARGEST:
            raise UsageError(f"{path} is larger than 16 MiB", "give a model's config.json")
        data = json.loads(text.decode("utf-8-sig"), object_pairs_hook=once, parse_constant=no_number)
    except OSError as err:
        raise UsageError(f"{path}: {err.strerror}", "give a model folder with a config.json, or a name") from err
    except (RecursionError, ValueError) as err:
        why = "nested too deeply" if isinstance(err, RecursionError) else str(err)[:200]
        raise UsageError(f"{path} is no config.json: {why}", "give a model folder or a name") from err
    if not isinstance(data, dict):
        raise UsageError(f"{path} is no config.json: not an object", "give a model folder or a name")
    return data


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"{next(key for key in keys if keys.count(key) > 1)!r} stands there twice")
    return found


def no_number(text: str) -> float:
    raise ValueError(f"{text} is no number")


class Reader:
    """Whole numbers of a configuration by our words; every other kind of value is refused."""

    def __init__(self, data: Mapping[str, Any], where: str) -> None:
        self.data, self.where = data, where

    def __call__(self, word: str) -> int:
        return max(self.numbers(word), default=0)

    def numbers(self, word: str) -> list[int]:
        """One number, or of a list all (ERNIE-4.5-VL: text, then vision); empty where nothing is said."""
        for key in NAMES[word]:
            value = self.data.get(key)
            if value is None or isinstance(value, bool) or value == []:
                continue
            found = value if isinstance(value, list) else [value]
            for one in found:
                if isinstance(one, bool) or not isinstance(one, int) or not 0 <= one < LIMITS.get(word, LIMIT):
                    raise UsageError(
                        f"{self.where}: {key} is {str(value)[:60]!r}"
                        if isinstance(value, str)
                        else f"{self.where}: {key} is {str(value)[:60]}",
                        f"{key} is a whole number below {LIMITS.get(word, LIMIT)}",
                    )
            return found
        return []

    def need(self, word: str) -> int:
        value = self(word)
        if not value:
            raise UsageError(
                f"{self.where}: none of {', '.join(NAMES[word])}", "give a causal language model's config.json"
            )
        return value

    def check(self, word: str, value: int, most: int) -> None:
        if value > most:
            key = next((k for k in NAMES[word] if k in self.data), NAMES[word][0])
            raise UsageError(f"{self.where}: {key} is {value}", f"at most {most} with the other sizes")


def flag(data: Mapping[str, Any], keys: tuple[str, ...], default: bool) -> bool:
    return next((data[k] for k in keys if isinstance(data.get(k), bool)), default)


def cap(data: Mapping[str, Any], key: str, where: str) -> bool:
    """Whether the field has a number to cap by; null is none."""
    value = data.get(key)
    if value is None:
        return False
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value <= 0:
        raise UsageError(f"{where}: {key} is {value!r:.60}", f"{key} is a number above 0, or null")
    return True
