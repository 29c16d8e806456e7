"""Checkpoints to resume from: what is whole, what is cut, and values that are not finite."""

from __future__ import annotations

import json
import math
import os
import pickle
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from launch.programs import checkpoint_check
from tests.installers.bundle.weights_helpers import make_header

INDEX = "model.safetensors.index.json"


def write_floats(path: Path, *values: float, kind: str = "F32", code: str = "f") -> None:
    data = struct.pack(f"<{len(values)}{code}", *values)
    path.write_bytes(make_header({"w": {"dtype": kind, "shape": [len(values)], "data_offsets": [0, len(data)]}}) + data)


def write_numpy(path: Path, *values: float) -> None:
    header = str({"descr": "<f4", "fortran_order": False, "shape": (len(values),)}).encode() + b"\n"
    data = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + struct.pack(f"<{len(values)}f", *values)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("w.npy", data)


def write_checkpoint(folder: Path) -> Path:
    """Write a checkpoint as a Trainer does: weights with an index, an archive, a pickle, and the state last."""
    folder.mkdir()
    write_floats(folder / "model-1.safetensors", *map(float, range(20_000)))
    (folder / INDEX).write_text(json.dumps({"weight_map": {"w": "model-1.safetensors"}}))
    with zipfile.ZipFile(folder / "optimizer.pt", "w") as archive:
        archive.writestr("data.pkl", b"x" * 500)
    (folder / "model_state.pdparams").write_bytes(pickle.dumps(list(range(500))))
    write_numpy(folder / "weights.npz", 1.0, 2.0)
    (folder / "trainer_state.json").write_text('{"global_step": 20}')
    return folder


def test_a_whole_checkpoint(tmp_path: Path) -> None:
    """Nothing is wrong."""
    found = checkpoint_check.check_checkpoint(write_checkpoint(tmp_path / "checkpoint-20"))

    assert (found.is_whole, found.flaws, found.files) == (True, (), 6)


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "nan": (lambda f: write_floats(f / "model-1.safetensors", 1.0, math.nan), "w: values that are not finite"),
    "half": (
        lambda f: write_floats(f / "model-1.safetensors", 1.0, math.inf, kind="F16", code="e"),
        "w: values that are not finite",
    ),
    "numpy": (lambda f: write_numpy(f / "weights.npz", math.nan), "w: values that are not finite"),
    "cut": (lambda f: os.truncate(f / "model-1.safetensors", 900), "model-1.safetensors: truncated"),
    "missing": (lambda f: (f / "model-1.safetensors").unlink(), "missing, but listed in the index"),
    "archive": (lambda f: os.truncate(f / "optimizer.pt", 300), "optimizer.pt: truncated, at 300 bytes"),
    "pickle": (lambda f: os.truncate(f / "model_state.pdparams", 300), "model_state.pdparams: truncated, at 300 bytes"),
    "empty": (lambda f: os.truncate(f / "model_state.pdparams", 0), "model_state.pdparams: empty"),
    "unfinished": (
        lambda f: (f / "trainer_state.json").unlink(),
        "missing: saving was interrupted",
    ),
    "step": (lambda f: (f / "trainer_state.json").write_text('{"global_step": 5}'), "belongs to step 5, not 20"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_checkpoint(name: str, tmp_path: Path) -> None:
    """Each kind of damage is found and named with its file."""
    folder = write_checkpoint(tmp_path / "checkpoint-20")
    damage, words = DAMAGE[name]
    damage(folder)
    found = checkpoint_check.check_checkpoint(folder)

    assert found.is_whole is False
    assert any(words in str(flaw) for flaw in found.flaws), found.flaws


def test_a_file_that_shrank(tmp_path: Path) -> None:
    """A pickle that is much smaller than in the checkpoint before is doubtful."""
    older, newer = (write_checkpoint(tmp_path / name) for name in ("checkpoint-10", "checkpoint-20"))
    (newer / "model_state.pdparams").write_bytes(pickle.dumps([1]))
    found = checkpoint_check.check_checkpoint(newer, older)

    assert found.is_whole is None
    assert "model_state.pdparams" in str(found.flaws[0]) and "in the checkpoint before" in str(found.flaws[0])


def test_no_checkpoint(tmp_path: Path) -> None:
    """A missing and an empty folder are errors."""
    assert checkpoint_check.check_checkpoint(tmp_path).is_whole is False
    assert checkpoint_check.check_checkpoint(tmp_path / "none").is_whole is False
