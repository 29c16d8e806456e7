"""What an exception of the device's allocator tells about the memory that is in use; pure."""

from __future__ import annotations

import re

from envcheck.core.messages import Message, _

_UNITS = {"bytes": 0, "B": 0, "KiB": 1, "MiB": 2, "GiB": 3, "TiB": 4}
_SIZE = r"(?<![\d.])(?P<size>\d{1,12}(?:\.\d{1,3})?) (?P<unit>bytes|[KMGT]?i?B)"
_TOTAL = re.compile(rf"(?:total capaci?ty of |; (?=[\d.]{{1,12}} \w{{1,5}} total)){_SIZE}")
_FREE = re.compile(rf"(?:of which |; ){_SIZE} (?:is )?free")
_OWN = re.compile(rf"this process has {_SIZE} memory in use")
_TENSORS = re.compile(rf"{_SIZE} is allocated by PyTorch")
_RESERVED = re.compile(rf"{_SIZE} is reserved by PyTorch but unallocated")
# The words of older releases and of torch_npu: what is allocated, and what is reserved with it.
_ALLOCATED = re.compile(rf"{_SIZE} already allocated")
_IN_TOTAL = re.compile(rf"{_SIZE} reserved in total by PyTorch")
_ASKED = re.compile(rf"Tried to allocate {_SIZE}")
_KIND = re.compile(r"\b(CUDA|HIP|NPU) out of memory")  # XPU's allocator has no such option
MOST, MUCH = 0.5, 0.1  # of the device's memory: held by others at least, reserved without use at least


def is_held_by_others(text: str) -> bool:
    """Return whether the text says that others hold more than half of the device's memory."""
    total, free = (_read_size(pattern, text) for pattern in (_TOTAL, _FREE))
    own = _read_own(text)
    return bool(own) and total - free - own > MOST * total


def find_fragmented(text: str) -> dict[str, str]:
    """Return what is reserved without being used, and the variable with the allocator's options, if that would do.

    Empty if the text does not say so: the request has to fit into what is reserved and free together.
    """
    total, free, asked = (_read_size(pattern, text) for pattern in (_TOTAL, _FREE, _ASKED))
    reserved, kind = _read_unused(text), _KIND.search(text)
    if not kind or reserved <= MUCH * total or not asked or reserved + free < asked:
        return {}
    return {"unused": _write_size(reserved), "allocator": f"PYTORCH_{kind[1]}_ALLOC_CONF"}


def _read_own(text: str) -> float:
    """What this process holds; older releases only say what it reserved."""
    return _read_size(_OWN, text) or _read_size(_IN_TOTAL, text)


def _read_unused(text: str) -> float:
    return _read_size(_RESERVED, text) or max(0.0, _read_size(_IN_TOTAL, text) - _read_size(_ALLOCATED, text))


def describe_held_memory(text: str) -> Message | None:
    """Return which part of the device's memory explains the failure; None if the text does not say."""
    tensors = _read_size(_TENSORS, text) or _read_size(_ALLOCATED, text)
    if is_held_by_others(text):
        return _(
            "This process holds only {own}: other processes, or other ranks on the same card, hold the rest.",
            own=_write_size(_read_own(text)),
        )
    return _("Tensors of this process hold {tensors}.", tensors=_write_size(tensors)) if tensors else None


def _read_size(pattern: re.Pattern[str], text: str) -> float:
    """The size in bytes; 0 if the text lacks it."""
    found = pattern.search(text)
    if found is None:
        return 0.0
    return float(found["size"]) * float(1024 ** _UNITS.get(found["unit"], 0))


def _write_size(size: float) -> str:
    return f"{size / 1024**3:.1f} GiB"
