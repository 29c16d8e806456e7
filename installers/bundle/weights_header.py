"""The header of a safetensors file: which tensors it says to hold, and whether the file's size agrees.

The format (safetensors' own README): 8 bytes with the header's length, little-endian; the header, JSON, each tensor as
{"dtype", "shape", "data_offsets": [begin, end]}, offsets from the header's end, without gaps or overlaps; the data.

Carried into containers by envcheck train: Python 3.8.
"""

from __future__ import annotations

import json
import math
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HEADER_LIMIT = 16 << 20  # bytes; about 100 a tensor, and the largest published models have some 100,000 tensors in all
NAME_LIMIT, RANK_LIMIT = 1024, 16
# Bits of one element, by the format's names.
_WIDTHS = {
    8: ("BOOL", "U8", "I8", "F8_E5M2", "F8_E4M3", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"),
    16: ("U16", "I16", "F16", "BF16"),
    32: ("U32", "I32", "F32"),
    64: ("U64", "I64", "F64", "C64"),
}
BITS = {"F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, **{name: bits for bits, names in _WIDTHS.items() for name in names}}
POINTER = b"version https://git-lfs"  # what a git clone without git-lfs leaves in a big file's place
AGAIN = "fetch it again"


@dataclass(frozen=True)
class Header:
    """`tensors`: bytes of each by name; `hole` is where the first part of the file stands that was never written."""

    tensors: Mapping[str, int]
    size_bytes: int
    hole: int | None = None


class NotWeightsError(ValueError):
    """What is wrong with a file, and what to do."""

    def __init__(self, what: str, next_step: str = AGAIN) -> None:
        super().__init__(what)
        self.what, self.next_step = what, next_step


def read(path: Path) -> Header:
    """The header of the file, checked against its size; its data are not read.  Raises NotWeightsError, OSError."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe in its place must not hang us
    with os.fdopen(handle, "rb", buffering=0) as file:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise NotWeightsError("is no plain file", "put the real file in its place")
        length = _length(file.read(8), found.st_size)
        raw = file.read(length)
        data = found.st_size - 8 - length
        if len(raw) < length or data < 0:
            raise NotWeightsError(f"is cut off inside its header, at {found.st_size} bytes")
        tensors = _tensors(raw)
        _sizes(tensors, data)
        hole = os.lseek(handle, 0, os.SEEK_HOLE)
    return Header({name: end - begin for name, (begin, end) in tensors.items()}, found.st_size, _real(hole, found))


def _real(hole: int, found: os.stat_result) -> int | None:
    """Every file has a hole at its end; some file systems know of no other."""
    return hole if hole < found.st_size else None


def _length(first: bytes, size: int) -> int:
    if size == 0:
        raise NotWeightsError("is empty")
    if first == POINTER[:8]:
        raise NotWeightsError(
            "is a pointer of Git LFS, not the weights", "in the clone: git lfs pull; or fetch it again"
        )
    length = int.from_bytes(first, "little")
    if len(first) < 8 or not 2 <= length <= HEADER_LIMIT:
        raise NotWeightsError(f"is no safetensors file: it begins with {first[:8]!r}")
    return length


def _tensors(raw: bytes) -> dict[str, tuple[int, int]]:
    """Begin and end of each tensor; whatever does not stand as the format says is refused."""
    try:
        said = json.loads(raw.decode("utf-8"), object_pairs_hook=_once, parse_constant=_no_number)
    except (ValueError, RecursionError) as err:
        if isinstance(err, NotWeightsError):
            raise
        raise NotWeightsError("has a header that is no JSON") from None
    if not isinstance(said, dict):
        raise NotWeightsError("has a header that is no table")
    said.pop("__metadata__", None)
    return {name: _tensor(name, value) for name, value in said.items()}


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        raise NotWeightsError("names something twice in its header", "do not use it: no honest program writes that")
    return table


def _no_number(text: str) -> None:
    raise NotWeightsError(f"has {text} in its header")


def _tensor(name: str, said: Any) -> tuple[int, int]:
    shown = ascii(name[:80])
    try:
        dtype, shape, (begin, end) = said["dtype"], said["shape"], said["data_offsets"]
        whole = [*shape, begin, end]
    except (TypeError, KeyError, ValueError):
        raise NotWeightsError(f"describes the tensor {shown} in another way than the format does") from None
    if len(name) > NAME_LIMIT or not isinstance(shape, list) or len(shape) > RANK_LIMIT:
        raise NotWeightsError(f"describes the tensor {shown} beyond all bounds")
    if not all(type(n) is int and 0 <= n < 1 << 63 for n in whole):
        raise NotWeightsError(f"gives the tensor {shown} a size that is no number from 0 up")
    if not isinstance(dtype, str) or dtype not in BITS:
        raise NotWeightsError(f"gives the tensor {shown} the unknown type {str(dtype)[:20]!a}")
    if math.prod(shape) * BITS[dtype] != (end - begin) * 8:
        raise NotWeightsError(f"gives the tensor {shown} {end - begin} bytes, which its shape and type do not take")
    return begin, end


def _sizes(tensors: Mapping[str, tuple[int, int]], data: int) -> None:
    """No gap, no overlap, and just as many bytes as the file has."""
    at = 0
    for name, (begin, end) in sorted(tensors.items(), key=lambda item: item[1]):
        if begin != at:
            how = "overlaps the one before" if begin < at else "leaves a gap before it"
            raise NotWeightsError(f"has a tensor that {how}: {name[:80]!a}", "do not use it: " + AGAIN)
        at = end
    if data < at:
        raise NotWeightsError(f"is cut off: {data} of {at} bytes of its data are there", AGAIN + "; a download resumes")
    if data > at:
        raise NotWeightsError(f"is {data - at} bytes longer than its header says")
