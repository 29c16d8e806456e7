"""A folder with a model's weights: is all of it there, whole, and of one model?  Headers are read, data are not.

Judges what a hub's download leaves: config.json, a tokenizer, safetensors files and their index.
Carried into containers by envcheck train: Python 3.8.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from installers.bundle import weights_header
from installers.bundle.weights_header import AGAIN, Header, NotWeightsError

INDEX, SINGLE = "model.safetensors.index.json", "model.safetensors"
INDEX_LIMIT = 32 << 20  # bytes; DeepSeek-V3's, of 91,000 tensors, has 9 MB
CONFIG_LIMIT, SHARDS_LIMIT, FILES_LIMIT = 1 << 20, 5000, 20_000
# Any of these is a tokenizer: tokenizers' own, sentencepiece's, BERT's, GPT's, Qwen's first.
TOKENIZERS = ("tokenizer.json", "tokenizer.model", "spiece.model", "vocab.txt", "vocab.json", "*.tiktoken")
UNFINISHED = (".incomplete", ".aria2", ".part", ".tmp")
PICKLED = (".bin", ".pdparams", ".pt", ".pth", ".ckpt")
_SHARD = re.compile(r"(.+)-\d{5}-of-(\d{5})\.safetensors")


@dataclass(frozen=True)
class Flaw:
    """One thing about one file, and what to do; `sure` is False where it may be right all the same."""

    file: str
    what: str
    next_step: str
    sure: bool = True

    def __str__(self) -> str:
        return f"{self.file} {self.what}"


@dataclass(frozen=True)
class Checked:
    """What was found; `size_bytes` is that of the weights.  `whole` is None where it could not be told."""

    folder: Path
    shards: int = 0
    tensors: int = 0
    size_bytes: int = 0
    flaws: tuple[Flaw, ...] = ()

    @property
    def whole(self) -> bool | None:
        if any(flaw.sure for flaw in self.flaws):
            return False
        return None if self.flaws else True


def check(folder: Path, *, within: Path | None = None) -> Checked:
    """Look at the folder.  Links may lead anywhere below `within` (the folder itself where nothing is said): what is
    mounted into a container must not lead out of the mount."""
    try:
        names = _listed(folder)
    except OSError as err:
        why = (err.strerror or str(err)).lower()
        return Checked(folder, flaws=(Flaw(str(folder), f"cannot be read: {why}", "give the folder of a model"),))
    inside = (within or folder).resolve()
    found: dict[str, Header] = {}
    flaws = [*_around(folder, names, inside), *_shards(folder, names, inside, found)]
    tensors, size = sum(len(h.tensors) for h in found.values()), sum(h.size_bytes for h in found.values())
    return Checked(folder, len(found), tensors, size, tuple(flaws))


def _listed(folder: Path) -> set[str]:
    names: set[str] = set()
    for path in folder.iterdir():
        names.add(path.name)
        if len(names) > FILES_LIMIT:
            raise OSError(0, f"more than {FILES_LIMIT} files")
    return names


def _around(folder: Path, names: set[str], inside: Path) -> Iterator[Flaw]:
    """What a model needs beside its weights."""
    if "config.json" not in names:
        yield Flaw("config.json", "is missing", "give the folder of the model itself, or fetch it again")
    elif (why := _leads_out(folder / "config.json", inside)) or _json(folder / "config.json", CONFIG_LIMIT) is None:
        yield why or Flaw("config.json", "is no JSON table", AGAIN)
    if not any((folder / name).is_file() for name in TOKENIZERS[:-1]) and not any(folder.glob(TOKENIZERS[-1])):
        yield Flaw("the tokenizer", f"is missing (none of {', '.join(TOKENIZERS)})", AGAIN)
    for name in sorted(names):
        if name.endswith(UNFINISHED):
            yield Flaw(name, "is a download that did not end", "repeat the download; it resumes")


def _shards(folder: Path, names: set[str], inside: Path, found: dict[str, Header]) -> Iterator[Flaw]:
    """Every file of weights, one by one; the good ones' headers land in `found`."""
    if INDEX in names:
        placed = _index(folder / INDEX, inside)
        if isinstance(placed, Flaw):
            yield placed
            return
    elif SINGLE in names:
        placed = {SINGLE: set()}
    else:
        yield _nothing(names)
        return
    for name in sorted(placed):
        flaw = _shard(folder / name, placed[name], inside, found) if name in names else _missing(name)
        if flaw:
            yield flaw
        elif found[name].hole is not None:
            what = f"has a part that was never written, at byte {found[name].hole}"
            yield Flaw(name, what, f"{AGAIN}, unless this file system stores zeros that way", sure=False)
    yield from _strangers(names, set(placed))


def _missing(name: str) -> Flaw:
    return Flaw(name, "is missing", "repeat the download; it resumes")


def _nothing(names: set[str]) -> Flaw:
    """No safetensors: another format that we cannot judge, or nothing."""
    pickled = sorted(name for name in names if name.endswith(PICKLED))
    if pickled:
        step = "take the model's safetensors files; these can only be judged by running what stands in them"
        return Flaw(pickled[0], "is of a format that cannot be checked", step, sure=False)
    shard = next((name for name in sorted(names) if _SHARD.fullmatch(name)), None)
    if shard:
        return Flaw(INDEX, f"is missing beside {shard}", AGAIN)
    return Flaw(f"{INDEX} or {SINGLE}", "is missing", "give the folder of the model itself, or fetch it")


def _index(path: Path, inside: Path) -> dict[str, set[str]] | Flaw:
    """Which tensors the index places in which file."""
    if leads_out := _leads_out(path, inside):
        return leads_out
    said = _json(path, INDEX_LIMIT)
    placed = said.get("weight_map") if said else None
    if not isinstance(placed, dict) or not placed:
        return Flaw(INDEX, "is no index: it has no weight_map", AGAIN)
    shards: dict[str, set[str]] = {}
    for tensor, name in placed.items():
        if not isinstance(name, str) or not _plain(name):
            return Flaw(INDEX, f"names {str(name)[:80]!a}, which is no file of this folder", "do not use this model")
        shards.setdefault(name, set()).add(tensor)
    if len(shards) > SHARDS_LIMIT:
        return Flaw(INDEX, f"names {len(shards)} files", "do not use this model")
    return shards


def _plain(name: str) -> bool:
    """A file of this folder and nothing else: no folder, no way up, nothing unprintable."""
    return bool(re.fullmatch(r"[\w.+-]{1,200}\.safetensors", name)) and not name.startswith(".")


def _shard(path: Path, wanted: set[str], inside: Path, found: dict[str, Header]) -> Flaw | None:
    if leads_out := _leads_out(path, inside):
        return leads_out
    try:
        header = weights_header.read(path)
    except NotWeightsError as err:
        return Flaw(path.name, err.what, err.next_step)
    except OSError as err:
        return Flaw(path.name, f"cannot be read: {(err.strerror or str(err)).lower()}", "see to its rights")
    found[path.name] = header
    lacking, more = sorted(wanted - set(header.tensors)), sorted(set(header.tensors) - wanted)
    for names, how in ((lacking, "lacks"), (more if wanted else [], "holds, against the index,")):
        if names:
            what = f"is of another model or version: it {how} {names[0][:80]!a}{_and_more(names)}"
            return Flaw(path.name, what, AGAIN)
    return None if header.tensors else Flaw(path.name, "holds no tensor", AGAIN)


def _and_more(names: list[str]) -> str:
    return f" and {len(names) - 1} more" if len(names) > 1 else ""


def _strangers(names: set[str], placed: set[str]) -> Iterator[Flaw]:
    """Shards of another split: left behind by another version; loaders that read *.safetensors would take both."""
    families = {found[1] for name in placed if (found := _SHARD.fullmatch(name))}
    for name in sorted(names - placed):
        split = _SHARD.fullmatch(name)
        if split and split[1] in families:
            yield Flaw(name, "is in no place of the index", "move it away: it is of another version of the model")


def _leads_out(path: Path, inside: Path) -> Flaw | None:
    try:
        real = path.resolve(strict=True)
    except (OSError, RuntimeError):  # a loop of links
        return Flaw(path.name, "is a link to nothing", AGAIN)
    if inside in (real, *real.parents):
        return None
    return Flaw(path.name, f"is a link that leads out of {inside}", "copy the folder with its files: cp -rL")


def _json(path: Path, limit: int) -> Mapping[str, Any] | None:
    """The table in the file; None for anything else."""
    try:
        if not path.is_file():
            return None
        with path.open("rb") as file:
            raw = file.read(limit + 1)
        said = json.loads(raw.decode("utf-8")) if len(raw) <= limit else None
    except (OSError, ValueError, RecursionError):
        return None
    return said if isinstance(said, dict) else None
