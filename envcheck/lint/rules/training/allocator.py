"""Rules about PYTORCH_CUDA_ALLOC_CONF and similar: keys and values at which torch exits with the first tensor."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.core.lint.context import LintContext
from envcheck.core.lint.remark_builders import fail, find_similar_name, warn
from envcheck.core.lint.script_model import Remark, VariableAssignment
from envcheck.core.messages import _
from envcheck.lint.rules.environment_variables import list_environment
from envcheck.scripts.vendor_words import load_vendor_words

# torch 2.9's documents and c10/cuda/CUDAAllocatorConfig.
_CUDA = frozenset(
    [
        "backend",
        "max_split_size_mb",
        "max_non_split_rounding_mb",
        "roundup_power2_divisions",
        "garbage_collection_threshold",
        "expandable_segments",
        "release_lock_on_cudamalloc",
        "release_lock_on_hipmalloc",
        "pinned_use_cuda_host_register",
        "pinned_use_hip_host_register",
        "pinned_num_register_threads",
        "pinned_use_background_threads",
        "pinned_reserve_segment_size_mb",
        "graph_capture_record_stream_reuse",
        "per_process_memory_fraction",
        "roundup_bypass_threshold_mb",
        "use_cuda_host_register",
        "large_segment_size_mb",
    ]
)
_OF_VENDORS = {name: keys for words in load_vendor_words().values() for name, keys in words.allocator_keys.items()}
_KEYS = {
    "PYTORCH_CUDA_ALLOC_CONF": _CUDA,
    "PYTORCH_HIP_ALLOC_CONF": _CUDA,
    "PYTORCH_ALLOC_CONF": _CUDA.union(*_OF_VENDORS.values()),
    **_OF_VENDORS,
}


def find_wrong_allocator_keys(context: LintContext) -> Iterator[Remark]:
    for _unused, assign in list_environment(context):
        if assign.name in _KEYS and assign.word.is_known and not assign.word.soft:
            yield from _judge_pairs(assign, _KEYS[assign.name])


def _judge_pairs(assign: VariableAssignment, known: frozenset[str]) -> Iterator[Remark]:
    """Check each key:value pair; a list in brackets is one value."""
    text = re.sub(r"\[[^\[\]]*\]", "[]", assign.word.text)
    for pair in filter(None, (each.strip() for each in text.split(","))):
        key, colon, value = (part.strip() for part in pair.partition(":"))
        meant = find_similar_name(key, known, 0.75)
        if not colon:
            seen = _(
                "{name} takes key:value pairs, and {pair!r} is not one: torch exits",
                name=assign.name,
                pair=pair[:40],
            )
            yield fail(
                assign,
                seen,
                _("Write {replace}.", replace=pair[:40].replace("=", ":")) if "=" in pair else _("Write key:value."),
            )
        elif key not in known and meant:
            yield fail(
                assign,
                _("{name} has no key {key}: torch exits", name=assign.name, key=key[:40]),
                _("Write {meant}.", meant=meant),
            )
        elif key not in known:
            yield warn(
                assign,
                _("{name} has no known key {key}", name=assign.name, key=key[:40]),
                _("Check the torch documentation."),
            )
        elif key == "expandable_segments" and value not in ("True", "False"):
            yield fail(
                assign,
                _(
                    "{key} is {value!r}: torch accepts only True and False, with this capitalization",
                    key=key,
                    value=value[:20],
                ),
                _("Write True."),
            )
