"""Compose files: each service as a container with docker's options, and the commands that it starts.

Compose itself fills in ${NAME:-default} and makes $$ a dollar; keys below << come from elsewhere in the file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from envcheck.lint.configs import Offsets, foreign, tree
from envcheck.lint.containers import Container
from envcheck.lint.model import UNKNOWN, Assign, Block, Command, Script, Word
from envcheck.lint.pieces import Pieces, inside, shell_of
from envcheck.lint.state import State, Value

SERVICES, ITEMS, MERGES = 100, 200, 5
_FILLED = re.compile(r"\$\$|\$\{(\w+)(?::?([-?+])([^}]*))?\}|\$(\w+)")
# Read by the container's runtime, which hands other devices in; nothing for a process.
_RUNTIMES = ("ASCEND_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES")
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


class Reader:
    """One file; places are the file's."""

    def __init__(self, block: Block, text: str) -> None:
        self.block, self.text, self.offsets = block, text, Offsets(text)

    def at(self, index: int) -> int:
        return self.block.at(self.offsets(index))

    def word(self, node: Any, text: str | None = None) -> Word:
        start = self.at(node.start_mark.index) + (getattr(node, "style", None) in ("'", '"'))
        value, soft = filled(str(node.value) if text is None else text)
        return Word(value, start, max(start + 1, self.at(node.end_mark.index)), soft=soft)

    def fields(self, node: Any, depth: int = 0) -> dict[str, tuple[Any, Any]]:
        """Keys of a mapping with the nodes of key and value; its own win over those that << brings."""
        found: dict[str, tuple[Any, Any]] = {}
        if getattr(node, "id", "") != "mapping" or depth > MERGES:
            return found
        for key, value in node.value[:ITEMS]:
            if key.id != "scalar":
                continue
            if key.value == "<<":
                for each in value.value[:ITEMS] if value.id == "sequence" else [value]:
                    found = {**self.fields(each, depth + 1), **found}
            else:
                found[str(key.value)] = (key, value)
        return found


def filled(text: str) -> tuple[str, bool]:
    """As compose fills it in, and whether a default stands in it."""
    soft = bool(re.search(r"(?<!\$)\$\{\w+:?-", text))

    def of(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        return match[3] if match[2] == "-" else UNKNOWN

    return _FILLED.sub(of, text), soft


def items(node: Any) -> list[Any]:
    """The scalars of a list, or the one that stands in its place."""
    nodes = node.value[:ITEMS] if node.id == "sequence" else [node]
    return [each for each in nodes if each.id == "scalar" and not foreign(each.tag)]


def read(block: Block) -> tuple[list[Container], list[Script]]:
    """Its services, and what they start."""
    text = block.raw.decode("utf-8", "replace")
    root, _ = tree(text)
    reader = Reader(block, text)
    services = reader.fields(root).get("services")
    found = [
        _service(reader, *each) for each in list(reader.fields(services[1]).values() if services else ())[:SERVICES]
    ]
    return [container for container, _ in found], [script for _, script in found]


def _service(reader: Reader, key: Any, node: Any) -> tuple[Container, Script]:
    fields = reader.fields(node)
    start, end = reader.at(key.start_mark.index), reader.at(key.end_mark.index)
    image = fields.get("image")
    named = reader.word(image[1]) if image and image[1].id == "scalar" and "build" not in fields else None
    options = tuple(option for name, (_, value) in fields.items() for option in _options(reader, name, value))
    container = Container(
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
    """deploy.resources.reservations.devices: NVIDIA's cards."""
    found: Any = node
    for name in ("resources", "reservations", "devices"):
        pair = reader.fields(found).get(name)
        if pair is None:
            return
        found = pair[1]
    for each in found.value[:ITEMS] if found.id == "sequence" else ():
        driver = reader.fields(each).get("driver")
        if driver is not None and driver[1].value == "nvidia":
            yield "--gpus", reader.word(driver[1])


_OTHERS: dict[str, Callable[[Reader, Any], Iterator[tuple[str, Word]]]] = {
    "privileged": _privileged,
    "environment": _environment,
    "volumes": _volumes,
    "ports": _ports,
    "deploy": _deploy,
}


def _started(reader: Reader, fields: dict[str, tuple[Any, Any]], container: Container) -> Script:
    """entrypoint and command as a script, in the service's environment."""
    state = State()
    state.cwd = UNKNOWN
    for name, value, word in container.environment:
        state.values[name] = Value(Word(value, word.start, word.end, soft=word.soft))
        if name not in _RUNTIMES:
            state.exported.add(name)
    pieces, argv = Pieces(), list[str]()
    for name in ("entrypoint", "command"):
        if name in fields:
            pieces = _appended(reader, pieces, argv, fields[name][1])
    script = inside(pieces.block(container.command.start), state, login=shell_of(argv) and "l" in argv[-1])
    script.assigns = [
        *(Assign(name, state.values[name].word, word.start, word.end, True) for name, _, word in container.environment),
        *script.assigns,
    ]
    script.names |= set(state.values)
    return script


def _appended(reader: Reader, pieces: Pieces, argv: list[str], node: Any) -> Pieces:
    """The words behind those that are there; the one that a shell reads takes their place."""
    if node.id == "scalar":
        pieces.add(b" ", reader.at(node.start_mark.index))
        _text(reader, pieces, node, b" ")
        return pieces
    for each in items(node):
        if shell_of(argv):
            pieces = Pieces()
            _text(reader, pieces, each, b"\n")
            return pieces
        argv.append(str(each.value))
        pieces.word(str(each.value).replace("$$", "$").encode(), reader.word(each).start)
    return pieces


def _text(reader: Reader, pieces: Pieces, node: Any, newline: bytes) -> None:
    """The scalar line by line; `newline`: what the end of a line is to its reader."""
    if node.style in ("|", ">"):
        newline = newline if node.style == "|" else b" "
        body = reader.text[node.start_mark.index : node.end_mark.index].partition("\n")[2]
        at = node.end_mark.index - len(body)
        indent = min((len(line) - len(line.lstrip()) for line in body.splitlines() if line.strip()), default=0)
        for line in body.splitlines(keepends=True):
            _dollars(pieces, line[indent:].rstrip("\r\n"), reader.at(at + min(indent, len(line))))
            pieces.add(newline, reader.at(at + len(line.rstrip("\r\n"))))
            at += len(line)
        return
    raw = reader.text[node.start_mark.index : node.end_mark.index]
    quoted = node.style in ("'", '"')
    plain = raw[1:-1] if quoted else raw
    as_written = plain == node.value or not (quoted and ("\\" in plain or "''" in plain))
    pieces.exact = pieces.exact and as_written
    _dollars(pieces, plain.replace("\n", " ") if as_written else node.value, reader.at(node.start_mark.index + quoted))


def _dollars(pieces: Pieces, text: str, at: int) -> None:
    """$$ is a dollar to the shell."""
    for number, part in enumerate(text.split("$$")):
        pieces.add(b"$" if number else b"", at + 1)
        at += 2 * bool(number)
        pieces.add(part.encode(), at)
        at += len(part.encode())
