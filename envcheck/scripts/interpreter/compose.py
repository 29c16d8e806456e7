"""Compose files: each service as a container with docker's options, and what it starts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from envcheck.core.lint.model import UNKNOWN, Assign, Block, Command, Script, Word
from envcheck.core.lint.script_container import ScriptContainer
from envcheck.scripts.configs import tree
from envcheck.scripts.interpreter.embedded_shell import Pieces, inside, shell_of
from envcheck.scripts.interpreter.yaml_nodes import ITEMS, Reader, items
from envcheck.scripts.interpreter.yaml_shell import appended
from envcheck.scripts.state import State, Value
from envcheck.scripts.vendor_words import RUNTIME_VARIABLES
from envcheck.vendors import VENDORS

SERVICES = 100
# Drivers of a reservation whose devices are those of --gpus.
_GPUS_DRIVERS = frozenset(vendor.runtime for vendor in VENDORS.values() if vendor.owns_gpus_option)
# Keys whose value or items are one of docker's options as they stand.
_ALIKE = {
    "shm_size": "--shm-size",
    "devices": "--device",
    "cap_add": "--cap-add",
    "ipc": "--ipc",
    "pid": "--pid",
    "runtime": "--runtime",
    "container_name": "--name",
    "tmpfs": "--tmpfs",
    "gpus": "--gpus",
    "platform": "--platform",
}


def read(block: Block) -> tuple[list[ScriptContainer], list[Script]]:
    """Its services, and what they start."""
    text = block.raw.decode("utf-8", "replace")
    root, _ = tree(text)
    reader = Reader(block, text)
    services = reader.fields(root).get("services")
    found = [
        _service(reader, *each) for each in list(reader.fields(services[1]).values() if services else ())[:SERVICES]
    ]
    return [container for container, _ in found], [script for _, script in found]


def _service(reader: Reader, key: Any, node: Any) -> tuple[ScriptContainer, Script]:
    fields = reader.fields(node)
    start, end = reader.at(key.start_mark.index), reader.at(key.end_mark.index)
    image = fields.get("image")
    named = reader.word(image[1]) if image and image[1].id == "scalar" and "build" not in fields else None
    options = tuple(option for name, (_, value) in fields.items() for option in _options(reader, name, value))
    container = ScriptContainer(
        Command((), start, end), named, options, service=True, partial=bool({"extends", "env_file"} & set(fields))
    )
    return container, _started(reader, fields, container)


def _options(reader: Reader, name: str, node: Any) -> Iterator[tuple[str, Word]]:
    if name in _ALIKE:
        yield from ((_ALIKE[name], reader.word(each)) for each in items(node) if each.value)
    elif name in _OTHERS:
        yield from _OTHERS[name](reader, node)


def _privileged(reader: Reader, node: Any) -> Iterator[tuple[str, Word]]:
    if node.id == "scalar" and str(node.value).lower() in ("true", "yes", "on"):
        yield "--privileged", reader.word(node)


def _environment(reader: Reader, node: Any) -> Iterator[tuple[str, Word]]:
    """NAME=value, from either form; a name alone is taken from outside."""
    for name, (key, value) in reader.fields(node).items():
        if value.id == "scalar":
            word = reader.word(value, f"{name}={value.value}")
            yield "-e", Word(word.text, reader.at(key.start_mark.index), word.end, soft=word.soft)
    yield from (("-e", reader.word(each)) for each in items(node) if each is not node)


def _volumes(reader: Reader, node: Any) -> Iterator[tuple[str, Word]]:
    for each in node.value[:ITEMS] if node.id == "sequence" else ():
        parts = {name: str(value.value) for name, (_, value) in reader.fields(each).items() if value.id == "scalar"}
        if each.id == "scalar":
            yield "-v", reader.word(each)
        elif parts.get("type") == "tmpfs" and "target" in parts:
            yield "--tmpfs", reader.word(each, parts["target"])
        elif {"source", "target"} <= set(parts):
            yield "-v", reader.word(each, f"{parts['source']}:{parts['target']}")


def _ports(reader: Reader, node: Any) -> Iterator[tuple[str, Word]]:
    yield from (("-p", reader.word(each)) for each in items(node))


def _deploy(reader: Reader, node: Any) -> Iterator[tuple[str, Word]]:
    """deploy.resources.reservations.devices, where they are the cards of --gpus."""
    found: Any = node
    for name in ("resources", "reservations", "devices"):
        pair = reader.fields(found).get(name)
        if pair is None:
            return
        found = pair[1]
    for each in found.value[:ITEMS] if found.id == "sequence" else ():
        driver = reader.fields(each).get("driver")
        if driver is not None and driver[1].value in _GPUS_DRIVERS:
            count = reader.fields(each).get("count")
            yield "--gpus", reader.word(count[1] if count and count[1].id == "scalar" else driver[1])


_OTHERS: dict[str, Callable[[Reader, Any], Iterator[tuple[str, Word]]]] = {
    "privileged": _privileged,
    "environment": _environment,
    "volumes": _volumes,
    "ports": _ports,
    "deploy": _deploy,
}


def _started(reader: Reader, fields: dict[str, tuple[Any, Any]], container: ScriptContainer) -> Script:
    """entrypoint and command as a script, in the service's environment."""
    state = State()
    state.cwd = UNKNOWN
    for name, value, word in container.environment:
        state.values[name] = Value(Word(value, word.start, word.end, soft=word.soft))
        if name not in RUNTIME_VARIABLES:  # the runtime hands other devices in; a process does not see it
            state.exported.add(name)
    pieces, argv = Pieces(), list[str]()
    for name in ("entrypoint", "command"):
        if name in fields:
            pieces = appended(reader, pieces, argv, fields[name][1])
    script = inside(pieces.block(container.command.start), state, login=shell_of(argv) and "l" in argv[-1])
    script.assigns = [
        *(Assign(name, state.values[name].word, word.start, word.end, True) for name, _, word in container.environment),
        *script.assigns,
    ]
    script.names |= set(state.values)
    return script
