"""Which installed packages lack what they ask for, by their metadata: as `pip check`, for what training needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from probes.host.package_names import normalize_name

# Whose requirements decide whether a training starts; others' quarrels are their own.
MATTER = frozenset(
    {
        *("torch", "torch-npu", "torchvision", "triton", "paddlepaddle", "paddlepaddle-gpu", "paddle-custom-npu"),
        *("paddle-iluvatar-gpu", "paddleformers", "erniekit", "transformers", "datasets", "peft", "trl", "accelerate"),
        *("deepspeed", "llamafactory", "ms-swift", "modelscope", "vllm", "vllm-ascend", "megatron-core", "tokenizers"),
        *("safetensors", "huggingface-hub"),
    }
)
HEAD_LIMIT = 256 << 10  # bytes of a METADATA file: its requirements stand before the description
UNMET_LIMIT = 50


def unmet(found: Mapping[str, tuple[str, Path]], python: str | None) -> list[str]:
    """ "vllm 0.9.1 wants torch==2.7.0, 2.5.1 is there"; `found` maps a name to its version and *-info folder."""
    from packaging.requirements import InvalidRequirement, Requirement

    here = {"python_version": ".".join((python or "").split(".")[:2]), "python_full_version": python or "", "extra": ""}
    said: list[str] = []
    for name in sorted(MATTER & found.keys()):
        version, folder = found[name]
        for line in _requires(folder):
            try:
                wanted = Requirement(line)
                if wanted.marker and not wanted.marker.evaluate(here if python else {"extra": ""}):
                    continue
            except (InvalidRequirement, ValueError, KeyError):
                continue
            if words := _lacks(wanted, found):
                said.append(f"{name} {version} wants {wanted.name}{wanted.specifier}, {words}")
    return said[:UNMET_LIMIT]


def _lacks(wanted: object, found: Mapping[str, tuple[str, Path]]) -> str:
    from packaging.requirements import Requirement
    from packaging.version import InvalidVersion

    assert isinstance(wanted, Requirement)
    there = found.get(normalize_name(wanted.name))
    if there is None:
        return "none is there"
    try:
        return "" if wanted.specifier.contains(there[0], prereleases=True) else f"{there[0]} is there"
    except InvalidVersion:
        return ""


def _requires(folder: Path) -> Iterator[str]:
    """The Requires-Dist lines of the metadata's head."""
    try:
        with (folder / "METADATA").open("rb") as file:
            head = file.read(HEAD_LIMIT).decode("utf-8", "replace").partition("\n\n")[0]
    except OSError:
        return
    for line in head.splitlines():
        key, _, value = line.partition(": ")
        if key == "Requires-Dist":
            yield value
