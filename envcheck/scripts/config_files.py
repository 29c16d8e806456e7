"""YAML and JSON configurations: keys with their places, parsed without constructing objects."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from envcheck.core.lint.script_model import (
    UNKNOWN,
    ConfigBlock,
    ConfigEntry,
    Heredoc,
    ShellScript,
    SourceBlock,
    SourceFile,
)
from envcheck.core.messages import _

if TYPE_CHECKING:
    from yaml import Node

LIMIT = 1 << 18  # bytes; the pure Python parser needs some seconds for them
ENTRIES = 5000
DEPTH = 8
# Options of a training program that name a file with more of its options.
OPTIONS_OF_PROGRAM = ("config", "cfg", "config_file", "training_config")
# Keys that identify one kind of configuration.
FAMILIES = (
    ("llamafactory", {"finetuning_type", "cutoff_len", "template", "dataset_dir", "lora_target"}),
    (
        "llamafactory-v1",
        {"model_class", "dist_config", "kernel_config", "quant_config", "peft_config", "train_dataset"}
        | {"sample_backend", "init_config", "batching_strategy", "micro_batch_size"},
    ),
    ("paddle", {"fine_tuning", "train_dataset_path", "train_dataset_type", "max_seq_len", "moe_group"}),
    (
        "paddlenlp",
        {"dataset_name_or_path", "src_length", "zero_padding", "eval_with_do_generation", "tensor_parallel_output"}
        | {"use_fused_rms_norm", "use_fused_rope", "use_flash_attention", "tokenizer_name_or_path", "continue_training"}
        | {"rl_algorithm", "actor_model_name_or_path", "reward_model_name_or_path", "use_fused_head_and_loss_fn"},
    ),
    ("swift", {"tuner_type", "train_type", "sft_type", "split_dataset_ratio", "model"}),
    ("hydra", {"defaults", "hydra"}),
    ("deepspeed", {"zero_optimization", "train_micro_batch_size_per_gpu", "zero_allow_untested_optimizer"}),
    ("rank_table", {"server_list", "server_count"}),
    ("accelerate", {"compute_environment", "distributed_type", "main_training_function"}),
    ("axolotl", {"base_model", "adapter", "sequence_len", "micro_batch_size", "dataset_prepared_path", "lora_r"}),
    ("torchtune", {"checkpointer", "tokenizer", "metric_logger", "enable_activation_checkpointing"}),
    ("verl", {"actor_rollout_ref", "custom_reward_function", "critic", "reward_model"}),
)
# What composes a configuration of others' keys: it decides, unless the program itself is recognised by more keys.
_COMPOSED = "hydra"
# Words that other programs have as keys, too: one of them alone is no sign.
_COMMON = frozenset(
    ["template", "adapter", "tokenizer", "critic", "reward_model", "base_model", "train_dataset", "checkpointer"]
).union(["micro_batch_size", "model_class", "init_config", "train_type", "model", "defaults", "dist_config", "lora_r"])
# They read files of any name by OmegaConf.load.
_YAML_READERS = frozenset(["torchtune"])


_KEY = re.compile(r"""(?m)^[ \t{,-]*["']?([A-Za-z_]\w*)["']?[ \t]*:""")  # of a text that cannot be parsed


def parse_config(block: SourceBlock, file: str = "") -> ConfigBlock:
    """Return the configuration in a block: its entries, its family, or the error."""
    config = ConfigBlock(block, file=file)
    if len(block.raw) > LIMIT:
        config.error, config.error_at = (
            _("larger than {limit} kB", limit=LIMIT >> 10),
            (block.map_to_file(0), block.map_to_file(0) + 1),
        )
        return config
    text = block.raw.decode("utf-8", "replace")
    json_problem = find_json_problem(text)
    if "\t" in text and json_problem is None:  # YAML allows no tabs between tokens, JSON does
        text = text.replace("\t", " ")
    node, wrong = parse_yaml_tree(text)
    if block.kind == "json" and text.strip() and UNKNOWN not in text and not _is_read_as_yaml(node):
        wrong = json_problem or wrong
    if wrong is not None:
        at = _count_bytes(text, min(wrong.index, len(text)))
        config.error, config.error_at = wrong.words, (block.map_to_file(at), block.map_to_file(at) + 1)
    elif node is not None:
        _gather_entries(config, node, text)
    names = {entry.name for entry in config.entries if not entry.path} or set(_KEY.findall(text[:LIMIT]))
    is_manifest = {"apiVersion", "kind"} <= names
    config.family = "compose" if _is_compose_file(config) else "kubernetes" if is_manifest else _find_family(names)
    return config


def _is_read_as_yaml(node: Any) -> bool:
    """Return whether the program of a configuration reads it as YAML, whatever the name of the file ends with."""
    keys = node.value if node is not None and node.id == "mapping" else ()
    return _find_family({str(key.value) for key, _value in keys if key.id == "scalar"}) in _YAML_READERS


def _find_family(names: set[str]) -> str:
    """The kind of configuration by its keys; "" if they are of none, or too common."""
    found = ((names & signs, family) for family, signs in FAMILIES)
    count, own, _is_composed, family = max(
        (len(signs), len(signs - _COMMON), family == _COMPOSED, family) for signs, family in found
    )
    return family if own or count > 1 else ""


def _is_compose_file(config: ConfigBlock) -> bool:
    """Whether it is a compose file: services with an image or a build."""
    made = ("image", "build", "extends", "<<")
    return any(len(e.path) == 2 and e.path[0] == "services" and e.name in made for e in config.entries)


@dataclass(frozen=True)
class ParseProblem:
    """Why a text cannot be parsed, and where, in characters."""

    words: str
    index: int = 0


def find_json_problem(text: str) -> ParseProblem | None:
    """Return why json.load rejects a text; None for JSON."""
    try:
        json.loads(text)
    except RecursionError:
        return ParseProblem(_("nested too deeply"))
    except json.JSONDecodeError as err:
        return ParseProblem(err.msg, err.pos)
    except ValueError:  # an integer of more digits than Python converts
        return None
    return None


def parse_yaml_tree(text: str) -> tuple[Node | None, ParseProblem | None]:
    """Return the nodes of the first document, without constructing objects, or the problem."""
    import yaml

    try:
        loader = yaml.SafeLoader(text)
        try:
            return (loader.get_node() if loader.check_node() else None), None
        finally:
            loader.dispose()
    except RecursionError:
        return None, ParseProblem(_("nested too deeply"))
    except yaml.YAMLError as err:
        marks = [getattr(err, f"{name}_mark", None) for name in ("problem", "context")]
        problem, where = str(getattr(err, "problem", None) or err), str(getattr(err, "context", None) or "")
        words = " ".join((where.partition(";")[0] if problem == "second occurrence" else problem).split())[:160]
        if where.endswith("simple key"):  # the line of the key, not the one where the parser gives up
            marks.reverse()
        mark = marks[0] or marks[1]
        return None, ParseProblem(words, mark.index if mark else 0)


def list_yaml_documents(text: str) -> Iterator[Node]:
    """Yield the nodes of each document, up to a problem."""
    import yaml

    loader = yaml.SafeLoader(text)
    try:
        while loader.check_node():
            if (root := loader.get_node()) is not None:
                yield root
    except (RecursionError, yaml.YAMLError):
        return
    finally:
        loader.dispose()


def _gather_entries(config: ConfigBlock, root: Node, text: str) -> None:
    """The entries of nested mappings; aliases are not followed."""
    seen: set[int] = set()
    offsets = ByteOffsets(text)

    def go(node: Any, path: tuple[str, ...]) -> None:
        if id(node) in seen or len(path) > DEPTH or len(config.entries) > ENTRIES or node.id != "mapping":
            return
        seen.add(id(node))
        names: set[str] = set()
        for key, value in node.value:
            name = str(key.value) if key.id == "scalar" else ""
            entry = _make_entry(config.block, offsets, name, key, value, path)
            if name in names:
                config.doubled.append(entry)
            names.add(name)
            config.entries.append(entry)
            go(value, (*path, name))

    go(root, ())


def _make_entry(
    block: SourceBlock, offsets: ByteOffsets, name: str, key: Any, value: Any, path: tuple[str, ...]
) -> ConfigEntry:
    kind = find_foreign_tag(value.tag) or value.tag.rpartition(":")[2]
    values: tuple[str, ...] = ()
    if value.id == "scalar":
        values = (str(value.value),)
    elif value.id == "sequence":
        values = tuple(str(item.value) for item in value.value[:200] if item.id == "scalar")
        kind = next(
            (tag for item in value.value[:200] if (tag := find_foreign_tag(item.tag))),
            find_foreign_tag(value.tag) or "seq",
        )
    places = [offsets(mark.index) for mark in (key.start_mark, key.end_mark, value.start_mark, value.end_mark)]
    start, end, value_start, value_end = (block.map_to_file(place) for place in places)
    if value.id != "scalar" or value_end < value_start:
        value_end = value_start + 1
    return ConfigEntry(name, values, start, end, value_start, value_end, kind, path)


def find_foreign_tag(tag: str) -> str:
    """Return a tag that is not part of YAML; "" for standard tags."""
    name = tag.removeprefix("tag:yaml.org,2002:")
    return name if name.startswith(("python/", "!")) else ""


class ByteOffsets:
    """Convert offsets in characters, as in YAML marks, to bytes."""

    def __init__(self, text: str) -> None:
        self.text, self.plain = text, text.isascii()

    def __call__(self, index: int) -> int:
        return index if self.plain else _count_bytes(self.text, index)


def _count_bytes(text: str, index: int) -> int:
    return len(text[:index].encode())


def read_heredoc_configs(source: SourceFile, script: ShellScript) -> list[ConfigBlock]:
    """Return the configurations that a script writes to .yaml or .json by a here-document, if they are plain text."""
    found: list[ConfigBlock] = []
    for command in script.commands:
        for heredoc in command.heredocs:
            name = heredoc.file.text if heredoc.file else ""
            suffix = re.search(r"\.(ya?ml|json)$", name)
            if not suffix or len(found) > 20:
                continue
            kind = "json" if suffix[1] == "json" else "yaml"
            config = _parse_heredoc(kind, script.block, heredoc, name)
            if not (config.error and any(each.text.lstrip("0123456789")[:2] == ">>" for each in command.redirects)):
                found.append(config)  # an appended text is a part of a file
    return found


# A variable after a value: it may be empty, or begin with a comma.
_APPENDED = re.compile(r"""(?<=["'\w\]}])\$(?:\{[^{}\n]*\}|\w+)(?=[ \t]*(?:,|$))""", re.MULTILINE)
_VARIABLE = re.compile(r"\$(?:\{[^{}\n]*\}|\w+|\([^()\n]*\))")


def _parse_heredoc(kind: str, block: SourceBlock, heredoc: Heredoc, name: str) -> ConfigBlock:
    """The configuration with the values of variables; with unknown ones where it can be parsed only so."""
    config = parse_config(_make_heredoc_block(kind, block, heredoc), name)
    raw = block.raw[heredoc.own[0] : heredoc.own[1]].decode("utf-8", "replace")
    if not config.error or heredoc.literal or "$" not in raw:
        return config
    for text in (raw, _APPENDED.sub("", raw)):
        if not parse_config(SourceBlock(kind, _VARIABLE.sub("0", text).encode(), ((0, 0),))).error:
            unknown = replace(heredoc, text=_VARIABLE.sub(UNKNOWN, text))
            return parse_config(_make_heredoc_block(kind, block, unknown), name)
    return config


def _make_heredoc_block(kind: str, block: SourceBlock, heredoc: Heredoc) -> SourceBlock:
    """The configuration as it is written, with the values of variables; each line has the place of its source."""
    raw = block.raw[heredoc.own[0] : heredoc.own[1]]
    written = heredoc.text.encode("utf-8", "replace")
    is_expanded = not heredoc.literal and b"$" in raw
    if is_expanded and written.count(b"\n") == raw.count(b"\n"):
        places = (block.map_to_file(heredoc.own[0] + start) for start in _list_line_starts(raw))
        return SourceBlock(kind, written, tuple(zip(_list_line_starts(written), places, strict=True)), exact=False)
    if is_expanded:  # a value of several lines
        raw = re.sub(rb"\$(?:\{[^{}\n]*\}|\w+)", lambda m: UNKNOWN.encode(), raw)
        return _make_heredoc_block(kind, block, replace(heredoc, text=raw.decode("utf-8", "replace")))
    lines = tuple((start, block.map_to_file(heredoc.own[0] + start)) for start in _list_line_starts(raw))
    return SourceBlock(kind, raw, lines)


def _list_line_starts(raw: bytes) -> list[int]:
    return [0, *(i + 1 for i, byte in enumerate(raw) if byte == 10)]
