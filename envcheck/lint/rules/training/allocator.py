"""PYTORCH_CUDA_ALLOC_CONF and its like: keys and values that torch ends at when the first tensor comes to a card."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.core.lint.context import LintContext
from envcheck.core.lint.model import Assign, Remark
from envcheck.core.lint.remarks import fail, near, warn
from envcheck.lint.rules.variables import environment
from envcheck.scripts.vendor_words import vendor_words

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
_OF_VENDORS = {name: keys for words in vendor_words().values() for name, keys in words.allocator_keys.items()}
_KEYS = {
    "PYTORCH_CUDA_ALLOC_CONF": _CUDA,
    "PYTORCH_HIP_ALLOC_CONF": _CUDA,
    "PYTORCH_ALLOC_CONF": _CUDA.union(*_OF_VENDORS.values()),
    **_OF_VENDORS,
}


def keys(context: LintContext) -> Iterator[Remark]:
    for _, assign in environment(context):
        if assign.name in _KEYS and assign.word.known and not assign.word.soft:
            yield from _pairs(assign, _KEYS[assign.name])


def _pairs(assign: Assign, known: frozenset[str]) -> Iterator[Remark]:
    """Each key:value; a list in brackets is the value of one."""
    text = re.sub(r"\[[^\]]*\]", "[]", assign.word.text)
    for pair in filter(None, (each.strip() for each in text.split(","))):
        key, colon, value = (part.strip() for part in pair.partition(":"))
        meant = near(key, known, 0.75)
        if not colon:
            seen = f"{assign.name} has pairs of key:value, and {pair[:40]!r} is none: torch ends at it"
            yield fail(assign, seen, f"Write {pair[:40].replace('=', ':')}." if "=" in pair else "Write key:value.")
        elif key not in known and meant:
            yield fail(assign, f"{assign.name} has no key {key[:40]}: torch ends at it", f"Write {meant}.")
        elif key not in known:
            yield warn(assign, f"{assign.name} has no key {key[:40]} that is known", "Compare it with torch's page.")
        elif key == "expandable_segments" and value not in ("True", "False"):
            yield fail(assign, f"{key} is {value[:20]!r}: torch takes True and False alone, so written", "Write True.")
