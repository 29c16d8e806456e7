"""Read a config.json; it is untrusted, so size, types and ranges are checked before a number is used."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from envcheck.core.errors import UsageError, describe_os_error
from envcheck.core.messages import Message, _, join

MAX_BYTES = 16 << 20
MAX_NUMBER = 1 << 40
MAX_NUMBERS = {"layers": 10_000, "hidden": 10**7, "heads": 10**6, "experts": 10**6, "ffn": 10**8, "vocab": 10**9}
# Our name → keys of config.json, most common first.  Sources: configuration classes of transformers 4.x and 5.x,
# PaddleFormers, GPT-2.
MODEL_NAMES: dict[str, tuple[str, ...]] = {
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
    "index_heads": ("index_n_heads",),
    "index_dim": ("index_head_dim",),
    "mlp_ratio": ("mlp_ratio", "expansion_ratio"),
}
TOWER_NAMES: dict[str, tuple[str, ...]] = {
    "embed": ("embed_dim",),
    "patch": ("patch_size",),
    "temporal": ("temporal_patch_size",),
    "channels": ("in_channels", "in_chans", "num_channels"),
    "merge": ("spatial_merge_size",),
    "image": ("image_size",),
    "position_count": ("num_position_embeddings",),
}
NAMES = {**MODEL_NAMES, **TOWER_NAMES}


def load_config(path: Path) -> dict[str, Any]:
    """Return the JSON object of a regular file of at most MAX_BYTES; UsageError for anything else.

    Duplicate keys and NaN are rejected as well.
    """
    try:
        if path.exists() and not path.is_file():
            raise UsageError(
                _("{path} is not a file", path=path), _("specify a model folder with a config.json, or a model name")
            )
        with path.open("rb") as file:
            text = file.read(MAX_BYTES + 1)
        if len(text) > MAX_BYTES:
            raise UsageError(_("{path} is larger than 16 MiB", path=path), _("specify a model's config.json"))
        data = json.loads(
            text.decode("utf-8-sig"), object_pairs_hook=reject_duplicate_keys, parse_constant=reject_constant
        )
    except OSError as err:
        raise UsageError(
            _("{path}: {reason}", path=path, reason=describe_os_error(err)),
            _("specify a model folder with a config.json, or a model name"),
        ) from err
    except (RecursionError, ValueError) as err:
        reason = err.args[0] if err.args and isinstance(err.args[0], Message) else str(err)[:200]
        raise UsageError(
            _("{path} is nested too deeply", path=path)
            if isinstance(err, RecursionError)
            else _("{path} is not a valid config.json: {reason}", path=path, reason=reason),
            _("specify a model folder or a model name"),
        ) from err
    if not isinstance(data, dict):
        raise UsageError(
            _("{path} is not a valid config.json: not a JSON object", path=path),
            _("specify a model folder or a model name"),
        )
    return data


def reject_duplicate_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object; ValueError for a duplicate key.  An object_pairs_hook of json.loads."""
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _unused in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(_("{key!r} is listed twice", key=twice))
    return found


def reject_constant(text: str) -> float:
    """Raise ValueError for NaN and Infinity.  A parse_constant of json.loads."""
    raise ValueError(_("{text} is not a number", text=text))


class ConfigNumberReader:
    """Reads integers of a configuration by the names in NAMES; rejects all other values."""

    def __init__(self, data: Mapping[str, Any], where: str) -> None:
        self.data, self.where = data, where

    def __call__(self, word: str) -> int:
        return max(self.read_numbers(word), default=0)

    def read_numbers(self, word: str) -> list[int]:
        """Return one number, or all of a list (ERNIE-4.5-VL: text, then vision); empty if there is none."""
        for key in NAMES[word]:
            value = self.data.get(key)
            if value is None or isinstance(value, bool) or value == []:
                continue
            found = value if isinstance(value, list) else [value]
            for one in found:
                if (
                    isinstance(one, bool)
                    or not isinstance(one, int)
                    or not 0 <= one < MAX_NUMBERS.get(word, MAX_NUMBER)
                ):
                    raise self._refuse_value(word, key, value)
            return found
        return []

    def _refuse_value(self, word: str, key: str, value: object) -> UsageError:
        limit = MAX_NUMBERS.get(word, MAX_NUMBER)
        return UsageError(
            _("{where}: {key} is {value!r}", where=self.where, key=key, value=value[:60])
            if isinstance(value, str)
            else _("{where}: {key} is {value}", where=self.where, key=key, value=str(value)[:60]),
            _("{key} must be a positive integer below {limit}", key=key, limit=limit),
        )

    def require_number(self, word: str) -> int:
        """Return the number; UsageError if it is missing or 0."""
        value = self(word)
        if not value:
            if self.read_numbers(word):
                key = next(key for key in NAMES[word] if self.data.get(key) in (0, [0]))
                raise self._refuse_value(word, key, 0)
            raise UsageError(
                _(
                    "{where}: missing {name} (also accepted: {others})",
                    where=self.where,
                    name=NAMES[word][0],
                    others=join(", ", NAMES[word][1:]),
                ),
                _("specify the config.json of a causal language model"),
            )
        return value

    def check_maximum(self, word: str, value: int, most: int) -> None:
        """Raise UsageError if a value contradicts other sizes: it is above `most`."""
        if value > most:
            key = next((k for k in NAMES[word] if k in self.data), NAMES[word][0])
            raise UsageError(
                _("{where}: {key} is {value}", where=self.where, key=key, value=value),
                _("with the other sizes it is at most {most}", most=most),
            )


def read_flag(data: Mapping[str, Any], keys: tuple[str, ...], default: bool) -> bool:
    """Return the first of these keys that is a boolean, else `default`."""
    return next((data[k] for k in keys if isinstance(data.get(k), bool)), default)


def has_cap(data: Mapping[str, Any], key: str, where: str) -> bool:
    """Whether the field sets a cap; null does not.  UsageError for an invalid value."""
    value = data.get(key)
    if value is None:
        return False
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value <= 0:
        raise UsageError(
            _("{where}: {key} is {value!r:.60}", where=where, key=key, value=value),
            _("{key} must be a number above 0, or null", key=key),
        )
    return True
