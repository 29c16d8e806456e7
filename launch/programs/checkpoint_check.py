"""Check a checkpoint before a training resumes from it: complete, intact, and a sample of its values finite.

Covers what trainers write: safetensors with or without an index, archives of torch.save and numpy, pickles (.pdparams).
Nothing is executed.  envcheck train copies this file into containers: it must run on Python 3.8.
"""

from __future__ import annotations

import json
import os
import re
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envcheck.core.errors import describe_os_error
from envcheck.core.messages import Message, _, verbatim
from installers.bundle import weights_header
from installers.bundle.weights import INDEX_LIMIT, UNFINISHED, WeightsFlaw, judge_flaws
from installers.bundle.weights_header import NotWeightsError
from launch.programs import weight_values

FILES_LIMIT = 20_000
STATE = "trainer_state.json"  # written last by the Trainers of transformers and PaddleFormers
STATE_LIMIT = 64 << 20
ARCHIVES, PICKLES = (".pt", ".pth", ".bin", ".ckpt", ".npz"), (".pdparams", ".pdopt", ".pdstate")
ARCHIVE_START, PICKLE_START, PICKLE_STOP = b"PK", b"\x80", b"."  # of every archive, and of every pickle since 2003
SHRUNK = 0.9  # a file that is smaller than this share of the one in the checkpoint before is probably cut
_STEP = re.compile(r"(\d{1,9})$")


@dataclass(frozen=True)
class CheckedCheckpoint:
    """The result of a check."""

    folder: Path
    files: int = 0
    size_bytes: int = 0
    flaws: tuple[WeightsFlaw, ...] = ()

    @property
    def is_whole(self) -> bool | None:
        """True, False, or None if unknown."""
        return judge_flaws(self.flaws)


def check_checkpoint(folder: Path, before: Path | None = None) -> CheckedCheckpoint:
    """Check the folder; `before` is an older checkpoint of the same training, to compare sizes with."""
    try:
        files = sorted(_list_files(folder))
    except OSError as err:
        why = _("cannot read it: {reason}", reason=describe_os_error(err))
        return CheckedCheckpoint(folder, flaws=(_make_flaw(verbatim(str(folder)), why),))
    if not files:
        return CheckedCheckpoint(folder, flaws=(_make_flaw(verbatim(folder.name), _("the folder is empty")),))
    bad = weight_values.find_value_flaw(folder)
    flaws = [
        *([WeightsFlaw(folder.name, bad, _("resume from an older checkpoint"))] if bad else []),
        *_check_state(folder, files),
        *_check_indexes(folder, files),
        *(flaw for path in files for flaw in _check_file(folder, path, before)),
    ]
    size = sum(path.stat().st_size for path in files)
    return CheckedCheckpoint(folder, len(files), size, tuple(flaws))


def _list_files(folder: Path) -> list[Path]:
    found = []
    for top, _folders, names in os.walk(str(folder), onerror=_raise_error):
        found += [Path(top) / name for name in names]
        if len(found) > FILES_LIMIT:
            raise OSError(0, f"more than {FILES_LIMIT} files")
    return [path for path in found if path.is_file()]


def _raise_error(err: OSError) -> None:
    raise err


def _make_flaw(file: str, what: Message, sure: bool = True) -> WeightsFlaw:
    return WeightsFlaw(file, what, _("resume from an older checkpoint"), sure)


def _check_state(folder: Path, files: Iterable[Path]) -> Iterator[WeightsFlaw]:
    """Check the state of the trainer: its step is that in the folder's name; it is there if an optimizer is."""
    names = {path.name for path in files if path.parent == folder}
    if STATE not in names:
        if names & {"optimizer.pt", "optimizer.bin"}:
            yield _make_flaw(STATE, _("missing: saving was interrupted"))
        return
    state, step = _read_json(folder / STATE, STATE_LIMIT), _STEP.search(folder.name)
    if state is None:
        yield _make_flaw(STATE, _("not a JSON object"))
    elif step and isinstance(state.get("global_step"), int) and state["global_step"] != int(step[1]):
        what = _("belongs to step {step}, not {expected}", step=state["global_step"], expected=int(step[1]))
        yield _make_flaw(STATE, what)


def _check_indexes(folder: Path, files: Iterable[Path]) -> Iterator[WeightsFlaw]:
    """Check that the files and tensors of each index exist."""
    for path in files:
        if not path.name.endswith(".safetensors.index.json"):
            continue
        said = _read_json(path, INDEX_LIMIT)
        placed = said.get("weight_map") if said else None
        if not isinstance(placed, dict) or not placed:
            yield _make_flaw(_name_file(folder, path), _("not a weight index: weight_map is missing"))
            continue
        by_file: dict[str, list[str]] = {}
        for tensor, name in placed.items():
            by_file.setdefault(str(name), []).append(str(tensor))
        for name, tensors in sorted(by_file.items()):
            yield from _check_indexed_file(folder, path.parent / Path(name).name, tensors)


def _check_indexed_file(folder: Path, path: Path, tensors: Iterable[str]) -> Iterator[WeightsFlaw]:
    if not path.is_file():
        yield _make_flaw(_name_file(folder, path), _("missing, but listed in the index"))
        return
    try:
        header = weights_header.read_header(path)
    except (NotWeightsError, OSError):
        return  # reported with the file itself
    lacking = sorted(set(tensors) - set(header.tensors))
    if lacking:
        what = _("tensor {name} is listed in the index but missing", name=ascii(lacking[0][:80]))
        yield _make_flaw(_name_file(folder, path), what)


def _check_file(folder: Path, path: Path, before: Path | None) -> Iterator[WeightsFlaw]:
    name = _name_file(folder, path)
    try:
        what, sure = _find_flaw(path), True
        if not what and before is not None:
            what, sure = _compare_size(path, before / path.relative_to(folder)), False
    except OSError as err:
        what = _("cannot read it: {reason}", reason=describe_os_error(err))
    if what:
        yield _make_flaw(name, what, sure)


def _find_flaw(path: Path) -> Message | None:
    """Return what is wrong with the file, None if nothing is known to be."""
    kind, size = path.suffix, path.stat().st_size
    if path.name.endswith(UNFINISHED):
        return _("saving was interrupted")
    if kind == ".safetensors":
        try:
            weights_header.read_header(path)
        except NotWeightsError as err:
            return err.what
        return None
    if kind not in (*ARCHIVES, *PICKLES):
        return None
    if size == 0:
        return _("empty")
    if zipfile.is_zipfile(str(path)):
        return None
    return _("truncated, at {size} bytes", size=size) if _is_cut(path, size) else None


def _is_cut(path: Path, size: int) -> bool:
    """Whether the file begins as an archive, which would have its list of members at the end, or as a pickle."""
    with path.open("rb") as file:
        first = file.read(2)
        file.seek(size - 1)
        last = file.read(1)
    return first == ARCHIVE_START or (first[:1] == PICKLE_START and last != PICKLE_STOP)


def _compare_size(path: Path, older: Path) -> Message | None:
    try:
        size, expected = path.stat().st_size, older.stat().st_size
    except OSError:
        return None
    if path.suffix not in (*PICKLES, *ARCHIVES) or size >= SHRUNK * expected:
        return None
    return _("{size} bytes, in the checkpoint before {expected}", size=size, expected=expected)


def _name_file(folder: Path, path: Path) -> str:
    return verbatim(str(path.relative_to(folder)))


def _read_json(path: Path, limit: int) -> dict[str, Any] | None:
    try:
        with path.open("rb") as file:
            said = json.loads(file.read(limit).decode("utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return said if isinstance(said, dict) else None
