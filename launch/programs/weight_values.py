"""Sample the values of a checkpoint: weights that are not finite, or far too large, give no probabilities.

Reads safetensors and NumPy's .npz, never pickles.  Also runs inside containers: Python 3.8, the standard library and
envcheck.core.messages only.
"""

from __future__ import annotations

import array
import ast
import json
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from envcheck.core.messages import Message, _

HEADER_LIMIT = 16 << 20  # bytes
SAMPLE = 4096  # bytes per place; three places per tensor: its beginning, middle and end
TENSORS, FILES = 4096, 512
# Trained weights are below 1000; at 2**40 the squares in a norm no longer fit 32-bit numbers.
LARGEST_EXPONENT = 40
# Type → (array type code, bits of the exponent, bits below it).
LAYOUTS = {"F16": ("H", 5, 10), "BF16": ("H", 8, 7), "F32": ("I", 8, 23), "F64": ("Q", 11, 52)}
NUMPY_TYPES = {"<f2": "F16", "<f4": "F32", "<f8": "F64"}


def find_value_flaw(folder: Path) -> Message | None:
    """Return what is wrong with the values of the weights in a folder; None if nothing is, or nothing can be read."""
    paths = sorted([*folder.glob("*.safetensors"), *folder.glob("*.npz")])
    for path in paths[:FILES]:
        try:
            samples = _sample_numpy(path) if path.suffix == ".npz" else _sample_safetensors(path)
            for name, kind, raw in samples:
                if flaw := _judge_values(kind, raw):
                    return _("{file}, {tensor}: {flaw}", file=path.name, tensor=ascii(name[:80])[1:-1], flaw=flaw)
        except (OSError, ValueError, KeyError, TypeError, SyntaxError, RecursionError, zipfile.BadZipFile):
            continue  # gate.model reports files that cannot be read
    return None


def _judge_values(kind: str, raw: bytes) -> Message | None:
    """Return the flaw of these values; the exponent alone tells, so that no number is converted."""
    code, wide, low = LAYOUTS[kind]
    values = array.array(code)
    values.frombytes(raw[: len(raw) - len(raw) % values.itemsize])
    if sys.byteorder == "big":
        values.byteswap()
    most = (1 << wide) - 1
    largest = max(((value >> low) & most for value in values), default=0)
    if largest == most:
        return _("values that are not finite numbers")
    power = largest - (most >> 1)
    return _("values of 2^{power} and more", power=power) if power >= LARGEST_EXPONENT else None


def _sample_safetensors(path: Path) -> Iterator[tuple[str, str, bytes]]:
    """Yield (tensor, type, bytes) of places of each tensor."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if not 2 <= length <= HEADER_LIMIT:
            return
        tensors = json.loads(file.read(length).decode("utf-8"))
        tensors.pop("__metadata__", None)
        for name, said in list(tensors.items())[:TENSORS]:
            begin, end = said["data_offsets"]
            if said["dtype"] in LAYOUTS:
                for at in _choose_places(end - begin):
                    file.seek(8 + length + begin + at)
                    yield name, said["dtype"], file.read(min(SAMPLE + 8, end - begin - at))


def _choose_places(size: int) -> tuple[int, ...]:
    """Return where to read in a tensor of this size, at multiples of 8 bytes."""
    if size <= SAMPLE:
        return (0,)
    return tuple(dict.fromkeys(at - at % 8 for at in (0, size // 2, size - SAMPLE)))


def _sample_numpy(path: Path) -> Iterator[tuple[str, str, bytes]]:
    """Yield (array, type, first bytes) of the arrays in a .npz file."""
    with zipfile.ZipFile(path) as kept:
        for name in kept.namelist()[:TENSORS]:
            with kept.open(name) as file:
                kind = _read_numpy_type(file)  # type: ignore[arg-type, unused-ignore]
                if kind:
                    yield name.rpartition(".")[0] or name, kind, file.read(SAMPLE)


def _read_numpy_type(file: BinaryIO) -> str:
    """Return the type of an array of NumPy's format (version 1 to 3), "" for another."""
    magic = file.read(8)
    if magic[:6] != b"\x93NUMPY":
        return ""
    length = int.from_bytes(file.read(2 if magic[6] == 1 else 4), "little")
    if length > HEADER_LIMIT:
        return ""
    described = ast.literal_eval(file.read(length).decode("latin-1"))
    return NUMPY_TYPES.get(described["descr"], "") if isinstance(described, dict) else ""
