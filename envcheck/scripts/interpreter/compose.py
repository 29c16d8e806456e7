"""Compose files: each service as a container with docker's options, and the command that it starts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from envcheck.core.lint.script_container import ScriptContainer
from envcheck.core.lint.script_model import (
    UNKNOWN,
    ShellCommand,
    ShellScript,
    ShellWord,
    SourceBlock,
    VariableAssignment,
)
from envcheck.scripts.config_files import parse_yaml_tree
from envcheck.scripts.interpreter.embedded_shell import ShellPieces, make_cut_script, starts_shell, walk_container_shell
from envcheck.scripts.interpreter.yaml_nodes import ITEMS, YamlReader, list_scalars
from envcheck.scripts.interpreter.yaml_shell import append_shell
from envcheck.scripts.shell_state import ShellState, ShellValue
from envcheck.scripts.vendor_words import RUNTIME_VARIABLES
from envcheck.vendors import VENDORS

SERVICES = 100
# Reservation drivers that correspond to --gpus.
_GPUS_DRIVERS = frozenset(vendor.runtime for vendor in VENDORS.values() if vendor.owns_gpus_option)
# Keys whose value or items equal one of docker's options.
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


def read_services(block: SourceBlock) -> tuple[list[ScriptContainer], list[ShellScript]]:
    """Return the containers of the services, and the scripts that they start."""
    text = block.raw.decode("utf-8", "replace")
    root, _ = parse_yaml_tree(text)
    reader = YamlReader(block, text)
    services = reader.read_fields(root).get("services")
    given = list(reader.read_fields(services[1]).values() if services else ())
    found = [_read_service(reader, *each) for each in given[:SERVICES]]
    left = [make_cut_script(reader.locate_index(key.start_mark.index)) for key, _node in given[SERVICES : SERVICES + 1]]
    return [container for container, _ in found], [*(script for _, script in found), *left]


def _read_service(reader: YamlReader, key: Any, node: Any) -> tuple[ScriptContainer, ShellScript]:
    fields = reader.read_fields(node)
    start, end = reader.locate_index(key.start_mark.index), reader.locate_index(key.end_mark.index)
    image = fields.get("image")
    named = reader.make_word(image[1]) if image and image[1].id == "scalar" and "build" not in fields else None
    options = tuple(option for name, (_, value) in fields.items() for option in _read_options(reader, name, value))
    container = ScriptContainer(
        ShellCommand((), start, end), named, options, service=True, partial=bool({"extends", "env_file"} & set(fields))
    )
    return container, _read_started_shell(reader, fields, container)


def _read_options(reader: YamlReader, name: str, node: Any) -> Iterator[tuple[str, ShellWord]]:
    if name in _ALIKE:
        yield from ((_ALIKE[name], reader.make_word(each)) for each in list_scalars(node) if each.value)
    elif name in _OTHERS:
        yield from _OTHERS[name](reader, node)


def _read_privileged(reader: YamlReader, node: Any) -> Iterator[tuple[str, ShellWord]]:
    if node.id == "scalar" and str(node.value).lower() in ("true", "yes", "on"):
        yield "--privileged", reader.make_word(node)


def _read_environment(reader: YamlReader, node: Any) -> Iterator[tuple[str, ShellWord]]:
    """NAME=value, from either form; a name alone is taken from outside."""
    for name, (key, value) in reader.read_fields(node).items():
        if value.id == "scalar":
            word = reader.make_word(value, f"{name}={value.value}")
            yield "-e", ShellWord(word.text, reader.locate_index(key.start_mark.index), word.end, soft=word.soft)
    yield from (("-e", reader.make_word(each)) for each in list_scalars(node) if each is not node)


def _read_volumes(reader: YamlReader, node: Any) -> Iterator[tuple[str, ShellWord]]:
    for each in node.value[:ITEMS] if node.id == "sequence" else ():
        parts = {
            name: str(value.value) for name, (_, value) in reader.read_fields(each).items() if value.id == "scalar"
        }
        if each.id == "scalar":
            yield "-v", reader.make_word(each)
        elif parts.get("type") == "tmpfs" and "target" in parts:
            yield "--tmpfs", reader.make_word(each, parts["target"])
        elif {"source", "target"} <= set(parts):
            yield "-v", reader.make_word(each, f"{parts['source']}:{parts['target']}")


def _read_ports(reader: YamlReader, node: Any) -> Iterator[tuple[str, ShellWord]]:
    yield from (("-p", reader.make_word(each)) for each in list_scalars(node))


def _read_deploy(reader: YamlReader, node: Any) -> Iterator[tuple[str, ShellWord]]:
    """deploy.resources.reservations.devices: as --gpus if they are its devices, or of no driver, else as --device."""
    found: Any = node
    for name in ("resources", "reservations", "devices"):
        pair = reader.read_fields(found).get(name)
        if pair is None:
            return
        found = pair[1]
    for each in found.value[:ITEMS] if found.id == "sequence" else ():
        driver = reader.read_fields(each).get("driver")
        if driver is not None and driver[1].value in _GPUS_DRIVERS:
            count = reader.read_fields(each).get("count")
            yield "--gpus", reader.make_word(count[1] if count and count[1].id == "scalar" else driver[1])
        elif each.id == "mapping":
            ids = reader.read_fields(each).get("device_ids")
            yield from (("--device", reader.make_word(word)) for word in (list_scalars(ids[1]) if ids else ()))
            if not ids:
                yield "--device", reader.make_word(each, "")


_OTHERS: dict[str, Callable[[YamlReader, Any], Iterator[tuple[str, ShellWord]]]] = {
    "privileged": _read_privileged,
    "environment": _read_environment,
    "volumes": _read_volumes,
    "ports": _read_ports,
    "deploy": _read_deploy,
}


def _read_started_shell(
    reader: YamlReader, fields: dict[str, tuple[Any, Any]], container: ScriptContainer
) -> ShellScript:
    """entrypoint and command as a script, in the service's environment."""
    state = ShellState()
    state.cwd = UNKNOWN
    for name, value, word in container.environment:
        state.assign_value(name, ShellValue(ShellWord(value, word.start, word.end, soft=word.soft)))
        if name not in RUNTIME_VARIABLES:  # read by the runtime only, which passes the devices
            state.export_name(name)
    pieces, argv = ShellPieces(), list[str]()
    for name in ("entrypoint", "command"):
        if name in fields:
            pieces = append_shell(reader, pieces, argv, fields[name][1])
    script = walk_container_shell(
        pieces.make_block(container.command.start), state, login=starts_shell(argv) and "l" in argv[-1]
    )
    script.assigns = [
        *(
            VariableAssignment(name, state.values[name].word, word.start, word.end, True)
            for name, _, word in container.environment
        ),
        *script.assigns,
    ]
    script.names |= set(state.values)
    return script
