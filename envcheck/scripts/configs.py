"""Configurations in YAML and JSON: their keys with places, read without building what they describe."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from envcheck.core.lint.model import Block, Config, Entry, Script, Source

if TYPE_CHECKING:
    from yaml import Node

LIMIT = 1 << 18  # bytes; the pure reader needs some seconds for them
ENTRIES = 5000
DEPTH = 8
# Keys that only one kind of configuration has.
FAMILIES = (
    ("llamafactory", {"finetuning_type", "cutoff_len", "template", "dataset_dir", "lora_target"}),
    ("paddle", {"fine_tuning", "train_dataset_path", "train_dataset_type", "max_seq_len", "moe_group"}),
    ("swift", {"tuner_type", "train_type", "sft_type", "split_dataset_ratio"}),
    ("deepspeed", {"zero_optimization", "train_micro_batch_size_per_gpu", "zero_allow_untested_optimizer"}),
    ("accelerate", {"compute_environment", "distributed_type", "main_training_function"}),
)


def read(block: Block, file: str = "") -> Config:
    config = Config(block, file=file)
    if len(block.raw) > LIMIT:
        config.error, config.error_at = f"larger than {LIMIT >> 10} kB", (block.at(0), block.at(0) + 1)
        return config
    text = block.raw.decode("utf-8", "replace")
    node, wrong = tree(text)
    if wrong is not None:
        at = _bytes(text, min(wrong.index, len(text)))
        config.error, config.error_at = wrong.words, (block.at(at), block.at(at) + 1)
    elif node is not None:
        _gather(config, node, text)
    names = {entry.name for entry in config.entries if not entry.path}
    scores = [(len(names & signs), family) for family, signs in FAMILIES]
    config.family = "compose" if _services(config) else max(scores)[1] if max(scores)[0] else ""
    return config


def _services(config: Config) -> bool:
    """A compose file: services that are made of an image or built."""
    made = ("image", "build", "extends", "<<")
    return any(len(e.path) == 2 and e.path[0] == "services" and e.name in made for e in config.entries)


@dataclass(frozen=True)
class Wrong:
    """Why a text cannot be read, and where, in characters."""

    words: str
    index: int = 0


def tree(text: str) -> tuple[Node | None, Wrong | None]:
    """The nodes of the first document, nothing of which is built."""
    import yaml

    try:
        loader = yaml.SafeLoader(text)
        try:
            return (loader.get_node() if loader.check_node() else None), None
        finally:
            loader.dispose()
    except RecursionError:
        return None, Wrong("nested too deeply to be read")
    except yaml.YAMLError as err:
        mark = getattr(err, "problem_mark", None) or getattr(err, "context_mark", None)
        words = " ".join(str(getattr(err, "problem", None) or err).split())[:160]
        return None, Wrong(words, mark.index if mark else 0)


def _gather(config: Config, root: Node, text: str) -> None:
    """The entries of mappings inside mappings; what an alias names is not followed."""
    seen: set[int] = set()
    offsets = Offsets(text)

    def go(node: Any, path: tuple[str, ...]) -> None:
        if id(node) in seen or len(path) > DEPTH or len(config.entries) > ENTRIES or node.id != "mapping":
            return
        seen.add(id(node))
        names: set[str] = set()
        for key, value in node.value:
            name = str(key.value) if key.id == "scalar" else ""
            entry = _entry(config.block, offsets, name, key, value, path)
            if name in names:
                config.doubled.append(entry)
            names.add(name)
            config.entries.append(entry)
            go(value, (*path, name))

    go(root, ())


def _entry(block: Block, offsets: Offsets, name: str, key: Any, value: Any, path: tuple[str, ...]) -> Entry:
    kind = foreign(value.tag) or value.tag.rpartition(":")[2]
    values: tuple[str, ...] = ()
    if value.id == "scalar":
        values = (str(value.value),)
    elif value.id == "sequence":
        values = tuple(str(item.value) for item in value.value[:200] if item.id == "scalar")
        kind = next((tag for item in value.value[:200] if (tag := foreign(item.tag))), foreign(value.tag) or "seq")
    places = [offsets(mark.index) for mark in (key.start_mark, key.end_mark, value.start_mark, value.end_mark)]
    start, end, value_start, value_end = (block.at(place) for place in places)
    if value.id != "scalar" or value_end < value_start:
        value_end = value_start + 1
    return Entry(name, values, start, end, value_start, value_end, kind, path)


def foreign(tag: str) -> str:
    """A tag that is none of YAML's own; "" for these."""
    name = tag.removeprefix("tag:yaml.org,2002:")
    return name if name.startswith(("python/", "!")) else ""


class Offsets:
    """Bytes of characters: marks count these."""

    def __init__(self, text: str) -> None:
        self.text, self.plain = text, text.isascii()

    def __call__(self, index: int) -> int:
        return index if self.plain else _bytes(self.text, index)


def _bytes(text: str, index: int) -> int:
    return len(text[:index].encode())


def of_heredocs(source: Source, script: Script) -> list[Config]:
    """What a script writes into a .yaml or .json by a heredoc, if it is plain enough to be one."""
    found: list[Config] = []
    for command in script.commands:
        for heredoc in command.heredocs:
            name = heredoc.file.text if heredoc.file else ""
            suffix = re.search(r"\.(ya?ml|json)$", name)
            if not suffix or len(found) > 20:
                continue
            raw = script.block.raw[heredoc.own[0] : heredoc.own[1]]
            starts = [0, *(i + 1 for i, byte in enumerate(raw) if byte == 10)]
            lines = tuple((start, script.block.at(heredoc.own[0] + start)) for start in starts)
            kind = "json" if suffix[1] == "json" else "yaml"
            if not heredoc.literal and b"$" in raw:
                raw = re.sub(rb"\$(?:\{[^{}\n]*\}|\w+)", lambda m: b"x" * len(m[0]), raw)
            found.append(read(Block(kind, raw, lines), name))
    return found
