"""Manifests of Kubernetes: the pods, and the trainings that their containers start."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from envcheck.core.lint.script_model import UNKNOWN, ShellScript, ShellWord, SourceBlock
from envcheck.scripts.config_files import list_yaml_documents
from envcheck.scripts.interpreter.embedded_shell import ShellPieces, make_cut_script, starts_shell, walk_container_shell
from envcheck.scripts.interpreter.yaml_nodes import ITEMS, YamlReader
from envcheck.scripts.interpreter.yaml_shell import append_shell
from envcheck.scripts.shell_state import ShellState, ShellValue
from envcheck.scripts.training_jobs import find_jobs

DEPTH = 12  # of the nodes that are searched for a pod
CONTAINERS = 100
Fields = Mapping[str, tuple[Any, Any]]  # key → (key node, value node)


def find_pods(reader: YamlReader, node: Any, depth: int = 0, seen: set[int] | None = None) -> Iterator[Fields]:
    """The mappings with containers; a node that aliases repeat is read once."""
    seen = set() if seen is None else seen
    if depth > DEPTH or id(node) in seen:
        return
    seen.add(id(node))
    if node.id == "sequence":
        for item in node.value[:ITEMS]:
            yield from find_pods(reader, item, depth + 1, seen)
        return
    fields = reader.read_fields(node)
    if "containers" in fields and fields["containers"][1].id == "sequence":
        yield fields
        return
    for _key, value in fields.values():
        yield from find_pods(reader, value, depth + 1, seen)


def read_items(fields: Fields, name: str) -> list[Any]:
    """Return the items of a key that has a list."""
    node = fields[name][1] if name in fields else None
    return list(node.value[:ITEMS]) if node is not None and node.id == "sequence" else []


def read_container_shell(reader: YamlReader, fields: Fields, at: int) -> ShellScript:
    """Return what the command of a container starts, in its environment; anything else may be set by the cluster."""
    state, pieces, argv = ShellState(), ShellPieces(), list[str]()
    state.cwd = UNKNOWN
    for each in read_items(fields, "env"):
        given = reader.read_fields(each)
        if "name" in given and given["name"][1].id == "scalar":
            name, value = str(given["name"][1].value), given["value"][1] if "value" in given else None
            known = value is not None and value.id == "scalar" and "$(" not in value.value
            word = reader.make_word(value) if known else ShellWord(UNKNOWN, at, at)
            state.assign_value(name, ShellValue(word))
            state.export_name(name)
    for name in ("command", "args"):
        if name in fields:
            pieces = append_shell(reader, pieces, argv, fields[name][1])
    script = walk_container_shell(pieces.make_block(at), state, login=starts_shell(argv) and "l" in argv[-1])
    script.opaque = True
    return script


def read_pod_scripts(block: SourceBlock) -> list[ShellScript]:
    """Return the scripts of containers that start a training, and an empty one where the limit is."""
    text = block.raw.decode("utf-8", "replace")
    reader = YamlReader(block, text)
    pods = (pod for root in list_yaml_documents(text) for pod in find_pods(reader, root))
    nodes = [node for pod in pods for node in read_items(pod, "containers")]
    places = [reader.locate_index(node.start_mark.index) for node in nodes]
    fields = [reader.read_fields(node) for node in nodes[:CONTAINERS]]
    scripts = [
        read_container_shell(reader, each, at)
        for at, each in zip(places, fields, strict=False)
        if "command" in each or "args" in each
    ]
    left = [make_cut_script(at) for at in places[CONTAINERS : CONTAINERS + 1]]
    return [*(script for script in scripts if find_jobs(script, ())), *left]
