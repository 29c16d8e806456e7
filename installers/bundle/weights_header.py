"""The header of a safetensors file: its tensors, checked against the file's size.

The format (safetensors README): 8 bytes with the header's length, little-endian; the header as JSON, each tensor as
{"dtype", "shape", "data_offsets": [begin, end]}, offsets from the header's end, without gaps or overlaps; the data.
envcheck train copies this file into containers: it must run on Python 3.8.
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

from envcheck.core.messages import Message, _

HEADER_LIMIT = 16 << 20  # bytes; about 100 per tensor, and the largest published models have about 100,000 tensors
NAME_LIMIT, RANK_LIMIT = 1024, 16
# Bits per element, by the format's type names.
_WIDTHS = {
    8: ("BOOL", "U8", "I8", "F8_E5M2", "F8_E4M3", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"),
    16: ("U16", "I16", "F16", "BF16"),
    32: ("U32", "I32", "F32"),
    64: ("U64", "I64", "F64", "C64"),
}
BITS = {"F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, **{name: bits for bits, names in _WIDTHS.items() for name in names}}
POINTER = b"version https://git-lfs"  # content of a large file in a clone made without git-lfs
AGAIN = _("download the file again")


@dataclass(frozen=True)
class WeightsHeader:
    """The bytes of each tensor by name; `hole` is the offset of the first part of the file that was never written."""

    tensors: Mapping[str, int]
    size_bytes: int
    hole: int | None = None


class NotWeightsError(ValueError):
    """What is wrong with a file, and what to do."""

    def __init__(self, what: Message, next_step: Message = AGAIN) -> None:
        super().__init__(what)
        self.what, self.next_step = what, next_step


def read_header(path: Path) -> WeightsHeader:
    """Return the file's header, checked against its size; reads no tensor data.  Raises NotWeightsError, OSError."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # do not hang if the path is a pipe
    with os.fdopen(handle, "rb", buffering=0) as file:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise NotWeightsError(_("not a regular file"), _("replace it with the actual file"))
        length = _parse_length(file.read(8), found.st_size)
        raw = file.read(length)
        data = found.st_size - 8 - length
        if len(raw) < length or data < 0:
            raise NotWeightsError(_("truncated within its header, at {size} bytes", size=found.st_size))
        tensors = _parse_tensors(raw)
        _check_offsets(tensors, data)
        hole = os.lseek(handle, 0, os.SEEK_HOLE)
    return WeightsHeader(
        {name: end - begin for name, (begin, end) in tensors.items()}, found.st_size, _real_hole(hole, found)
    )


def _real_hole(hole: int, found: os.stat_result) -> int | None:
    """Return the hole's offset, None for the virtual hole at the end: every file has one; some file systems know no
    others.
    """
    return hole if hole < found.st_size else None


def _parse_length(first: bytes, size: int) -> int:
    if size == 0:
        raise NotWeightsError(_("empty"))
    if first == POINTER[:8]:
        raise NotWeightsError(
            _("Git LFS pointer instead of the weights"),
            _("run `git lfs pull` in the clone, or download the file again"),
        )
    length = int.from_bytes(first, "little")
    if len(first) < 8 or not 2 <= length <= HEADER_LIMIT:
        raise NotWeightsError(_("not a safetensors file: it begins with {beginning!r}", beginning=first[:8]))
    return length


def _parse_tensors(raw: bytes) -> dict[str, tuple[int, int]]:
    """Return begin and end of each tensor; NotWeightsError for everything outside the format."""
    try:
        said = json.loads(raw.decode("utf-8"), object_pairs_hook=_reject_duplicates, parse_constant=_reject_constant)
    except (ValueError, RecursionError) as err:
        if isinstance(err, NotWeightsError):
            raise
        raise NotWeightsError(_("invalid header: not JSON")) from None
    if not isinstance(said, dict):
        raise NotWeightsError(_("invalid header: not a JSON object"))
    said.pop("__metadata__", None)
    return {name: _parse_tensor(name, value) for name, value in said.items()}


def _reject_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        raise NotWeightsError(
            _("invalid header: duplicate names"), _("do not use this file: no valid program writes such a header")
        )
    return table


def _reject_constant(text: str) -> None:
    raise NotWeightsError(_("invalid header: unexpected value {value}", value=text))


def _parse_tensor(name: str, said: Any) -> tuple[int, int]:
    shown = ascii(name[:80])
    try:
        dtype, shape, (begin, end) = said["dtype"], said["shape"], said["data_offsets"]
        whole = [*shape, begin, end]
    except (TypeError, KeyError, ValueError):
        raise NotWeightsError(_("invalid header: tensor {tensor} does not follow the format", tensor=shown)) from None
    if len(name) > NAME_LIMIT or not isinstance(shape, list) or len(shape) > RANK_LIMIT:
        raise NotWeightsError(_("invalid header: values of tensor {tensor} exceed the limits", tensor=shown))
    if not all(type(n) is int and 0 <= n < 1 << 63 for n in whole):
        raise NotWeightsError(
            _(
                "invalid header: tensor {tensor} has a dimension or an offset that is not a non-negative integer",
                tensor=shown,
            )
        )
    if not isinstance(dtype, str) or dtype not in BITS:
        raise NotWeightsError(
            _("invalid header: tensor {tensor} has the unknown type {dtype!a}", tensor=shown, dtype=str(dtype)[:20])
        )
    if math.prod(shape) * BITS[dtype] != (end - begin) * 8:
        raise NotWeightsError(
            _(
                "invalid header: tensor {tensor} has {size} bytes, which does not match its shape and type",
                tensor=shown,
                size=end - begin,
            )
        )
    return begin, end


def _check_offsets(tensors: Mapping[str, tuple[int, int]], data: int) -> None:
    """Require no gap, no overlap, and exactly as many bytes as the file has."""
    at = 0
    for name, (begin, end) in sorted(tensors.items(), key=lambda item: item[1]):
        if begin != at:
            wrong = (
                _("invalid header: tensor {name!a} overlaps the previous one", name=name[:80])
                if begin < at
                else _("invalid header: gap before tensor {name!a}", name=name[:80])
            )
            raise NotWeightsError(wrong, _("do not use this file: {fetch_again}", fetch_again=AGAIN))
        at = end
    if data < at:
        raise NotWeightsError(
            _("truncated: {present} of {size} bytes of data present", present=data, size=at),
            _("{fetch_again}; a download resumes", fetch_again=AGAIN),
        )
    if data > at:
        raise NotWeightsError(_("{surplus} bytes longer than its header specifies", surplus=data - at))
