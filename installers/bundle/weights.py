"""Check a folder with model weights: complete, intact and of one model?  Reads headers only.

Expects what a hub download leaves: config.json, a tokenizer, safetensors files and their index. envcheck train copies
this file into containers: it must run on Python 3.8.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envcheck.core.errors import describe_os_error
from envcheck.core.messages import Message, _, join, verbatim
from installers.bundle import weights_header
from installers.bundle.weights_header import AGAIN, NotWeightsError, WeightsHeader

INDEX, SINGLE = "model.safetensors.index.json", "model.safetensors"
INDEX_LIMIT = 32 << 20  # bytes; DeepSeek-V3's index of 91,000 tensors has 9 MB
CONFIG_LIMIT, SHARDS_LIMIT, FILES_LIMIT = 1 << 20, 5000, 20_000
# Tokenizer files: of tokenizers, sentencepiece, BERT, GPT, and the first Qwen.
TOKENIZERS = ("tokenizer.json", "tokenizer.model", "spiece.model", "vocab.txt", "vocab.json", "*.tiktoken")
UNFINISHED = (".incomplete", ".aria2", ".part", ".tmp")
PICKLED = (".bin", ".pdparams", ".pt", ".pth", ".ckpt")
_SHARD = re.compile(r"(.+)-\d{5}-of-(\d{5})\.safetensors")


@dataclass(frozen=True)
class WeightsFlaw:
    """One problem with one file, and what to do; `sure` is False if the file may be fine."""

    file: str
    what: Message
    next_step: Message
    sure: bool = True

    def __str__(self) -> str:
        return _("{file}: {what}", file=self.file, what=self.what)


def judge_flaws(flaws: Sequence[WeightsFlaw]) -> bool | None:
    """Return True for no flaw, False for a certain one, None if it is unknown whether the files are whole."""
    return False if any(flaw.sure for flaw in flaws) else None if flaws else True


@dataclass(frozen=True)
class CheckedWeights:
    """The result of a check; `size_bytes` is the size of the weights."""

    folder: Path
    shards: int = 0
    tensors: int = 0
    size_bytes: int = 0
    flaws: tuple[WeightsFlaw, ...] = ()

    @property
    def is_whole(self) -> bool | None:
        """True, False, or None if unknown."""
        return judge_flaws(self.flaws)


def check_weights(folder: Path, *, within: Path | None = None) -> CheckedWeights:
    """Check the folder.  Links must stay below `within` (default: the folder): the container sees only the mount."""
    try:
        names = _list_names(folder)
    except OSError as err:
        why = describe_os_error(err)
        return CheckedWeights(
            folder,
            flaws=(WeightsFlaw(str(folder), _("cannot read it: {reason}", reason=why), _("pass a model folder")),),
        )
    inside = (within or folder).resolve()
    found: dict[str, WeightsHeader] = {}
    flaws = [*_check_companions(folder, names, inside), *_check_shards(folder, names, inside, found)]
    tensors, size = sum(len(h.tensors) for h in found.values()), sum(h.size_bytes for h in found.values())
    return CheckedWeights(folder, len(found), tensors, size, tuple(flaws))


def _list_names(folder: Path) -> set[str]:
    names: set[str] = set()
    for path in folder.iterdir():
        names.add(path.name)
        if len(names) > FILES_LIMIT:
            raise OSError(0, f"more than {FILES_LIMIT} files")
    return names


def _check_companions(folder: Path, names: set[str], inside: Path) -> Iterator[WeightsFlaw]:
    """Check the files that a model needs besides its weights."""
    if "config.json" not in names:
        yield WeightsFlaw("config.json", _("missing"), _("pass the model folder itself, or download the model again"))
    elif (why := _leads_out(folder / "config.json", inside)) or _read_json(
        folder / "config.json", CONFIG_LIMIT
    ) is None:
        yield why or WeightsFlaw("config.json", _("not a JSON object"), AGAIN)
    if not any((folder / name).is_file() for name in TOKENIZERS[:-1]) and not any(folder.glob(TOKENIZERS[-1])):
        yield WeightsFlaw(_("tokenizer"), _("missing (none of {names})", names=join(", ", TOKENIZERS)), AGAIN)
    for name in sorted(names):
        if name.endswith(UNFINISHED):
            yield WeightsFlaw(name, _("incomplete download"), _("run the download again; it resumes"))


def _check_shards(
    folder: Path, names: set[str], inside: Path, found: dict[str, WeightsHeader]
) -> Iterator[WeightsFlaw]:
    """Check every weight file; headers of good ones are added to `found`."""
    if INDEX in names:
        placed = _read_index(folder / INDEX, inside)
        if isinstance(placed, WeightsFlaw):
            yield placed
            return
    elif SINGLE in names:
        placed = {SINGLE: set()}
    else:
        yield _no_weights(names)
        return
    for name in sorted(placed):
        flaw = _check_shard(folder / name, placed[name], inside, found) if name in names else _missing_file(name)
        if flaw:
            yield flaw
        elif found[name].hole is not None:
            what = _("part of the file was never written, starting at byte {offset}", offset=found[name].hole)
            step = _("{fetch_again}, unless this file system stores zeros as holes", fetch_again=AGAIN)
            yield WeightsFlaw(name, what, step, sure=False)
    yield from _find_foreign_shards(names, set(placed))


def _missing_file(name: str) -> WeightsFlaw:
    return WeightsFlaw(name, _("missing"), _("run the download again; it resumes"))


def _no_weights(names: set[str]) -> WeightsFlaw:
    """Return the flaw of a folder without safetensors files: another format, or nothing."""
    pickled = sorted(name for name in names if name.endswith(PICKLED))
    if pickled:
        step = _("use the model's safetensors files; other formats cannot be checked without executing them")
        return WeightsFlaw(pickled[0], _("this file format cannot be checked"), step, sure=False)
    shard = next((name for name in sorted(names) if _SHARD.fullmatch(name)), None)
    if shard:
        return WeightsFlaw(INDEX, _("missing, but shard {shard} exists", shard=shard), AGAIN)
    return WeightsFlaw(
        _("{index} or {single}", index=INDEX, single=SINGLE),
        _("missing"),
        _("pass the model folder itself, or download the model"),
    )


def _read_index(path: Path, inside: Path) -> dict[str, set[str]] | WeightsFlaw:
    """Return the tensors of each file in the index."""
    if leads_out := _leads_out(path, inside):
        return leads_out
    said = _read_json(path, INDEX_LIMIT)
    placed = said.get("weight_map") if said else None
    if not isinstance(placed, dict) or not placed:
        return WeightsFlaw(INDEX, _("not a weight index: weight_map is missing"), AGAIN)
    shards: dict[str, set[str]] = {}
    for tensor, name in placed.items():
        if not isinstance(name, str) or not _is_plain_name(name):
            return WeightsFlaw(
                INDEX,
                _("lists {name!a}, which is not a file in this folder", name=str(name)[:80]),
                _("do not use this model"),
            )
        shards.setdefault(name, set()).add(tensor)
    if len(shards) > SHARDS_LIMIT:
        return WeightsFlaw(INDEX, _("too many files listed: {count}", count=len(shards)), _("do not use this model"))
    return shards


def _is_plain_name(name: str) -> bool:
    """Return whether the name is a file in this folder: no subfolder, no parent, only printable characters."""
    return bool(re.fullmatch(r"[\w.+-]{1,200}\.safetensors", name)) and not name.startswith(".")


def _check_shard(path: Path, wanted: set[str], inside: Path, found: dict[str, WeightsHeader]) -> WeightsFlaw | None:
    if leads_out := _leads_out(path, inside):
        return leads_out
    try:
        header = weights_header.read_header(path)
    except NotWeightsError as err:
        return WeightsFlaw(path.name, err.what, err.next_step)
    except OSError as err:
        return WeightsFlaw(
            path.name,
            _("cannot read it: {reason}", reason=describe_os_error(err)),
            _("check the file's permissions"),
        )
    found[path.name] = header
    lacking, more = sorted(wanted - set(header.tensors)), sorted(set(header.tensors) - wanted)
    if lacking:
        what = _("belongs to another model or version: {tensors} missing", tensors=_and_more(lacking))
        return WeightsFlaw(path.name, what, AGAIN)
    if more and wanted:
        what = _(
            "belongs to another model or version: contains {tensors}, which the index does not list",
            tensors=_and_more(more),
        )
        return WeightsFlaw(path.name, what, AGAIN)
    return None if header.tensors else WeightsFlaw(path.name, _("contains no tensors"), AGAIN)


def _and_more(names: list[str]) -> Message:
    first = ascii(names[0][:80])
    return _("{name} and {count} more", name=first, count=len(names) - 1) if len(names) > 1 else verbatim(first)


def _find_foreign_shards(names: set[str], placed: set[str]) -> Iterator[WeightsFlaw]:
    """Yield shards of another version's split: loaders that read *.safetensors would load both."""
    families = {found[1] for name in placed if (found := _SHARD.fullmatch(name))}
    for name in sorted(names - placed):
        split = _SHARD.fullmatch(name)
        if split and split[1] in families:
            yield WeightsFlaw(
                name,
                _("not listed in the weight index"),
                _("move the file away: it belongs to another version of the model"),
            )


def _leads_out(path: Path, inside: Path) -> WeightsFlaw | None:
    try:
        real = path.resolve(strict=True)
    except (OSError, RuntimeError):  # a loop of symbolic links
        return WeightsFlaw(path.name, _("broken symbolic link"), AGAIN)
    if inside in (real, *real.parents):
        return None
    return WeightsFlaw(
        path.name,
        _("symbolic link to a path outside {folder}", folder=inside),
        _("copy the folder with the linked files: `cp -rL`"),
    )


def _read_json(path: Path, limit: int) -> Mapping[str, Any] | None:
    """Return the JSON object in the file; None for anything else."""
    try:
        if not path.is_file():
            return None
        with path.open("rb") as file:
            raw = file.read(limit + 1)
        said = json.loads(raw.decode("utf-8")) if len(raw) <= limit else None
    except (OSError, ValueError, RecursionError):
        return None
    return said if isinstance(said, dict) else None
