"""Lines of a shell's profile that set a variable: those that can be commented out, and those that only a person can.

A line inside `if`, a function or a loop, or one that does more, is not touched: without it the shell might not even
start.  So is every line of a profile that the parser does not understand whole.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node

NAMES = (".bashrc", ".bash_profile", ".bash_login", ".profile", ".zshrc", ".zprofile")
LIMIT = 1 << 20  # bytes
ELSEWHERE = ("subshell", "command_substitution", "process_substitution", "command")  # nothing of it is left behind
SETTING = ("declaration_command", "variable_assignment", "variable_assignments")
REST = re.compile(rb"\s*;?\s*(#.*)?")  # what may stand behind a statement that is commented out with its line


@dataclass(frozen=True)
class Line:
    """`number` counts from 1.  `alone`: nothing but a comment goes with it."""

    number: int
    text: str
    names: tuple[str, ...]
    alone: bool


def setting(path: Path, wanted: Callable[[str], bool]) -> list[Line]:
    """The lines that set a wanted variable for more than one command; none where the file cannot be read."""
    text = _text(path)
    if not any(wanted(word) for word in set(re.findall(r"\w+(?==)", text))):
        return []
    from envcheck.scripts import nodes

    raw = text.encode("utf-8", "surrogateescape")
    try:
        root, rows = nodes.root(raw), raw.split(b"\n")
    except ModuleNotFoundError:  # envcheck.pyz has no grammar: a person decides
        return list(_plain(text, wanted))
    found: dict[int, list[Node]] = {}
    for node in _assignments(root):
        if wanted(_name(node)):
            found.setdefault(node.start_point[0], []).append(node)
    return [
        Line(
            row + 1,
            rows[row].decode("utf-8", "surrogateescape"),
            tuple(map(_name, there)),
            not root.has_error and _alone(there, rows[row], wanted),
        )
        for row, there in sorted(found.items())
    ]


def _plain(text: str, wanted: Callable[[str], bool]) -> Iterator[Line]:
    """Without a grammar: lines that look as if they set one."""
    for number, line in enumerate(text.split("\n"), 1):
        if names := tuple(name for name in re.findall(r"\b(\w+)=", line.partition("#")[0]) if wanted(name)):
            yield Line(number, line, names, alone=False)


def _text(path: Path) -> str:
    try:
        if not path.is_file() or path.stat().st_size > LIMIT:
            return ""
        return path.read_bytes().decode("utf-8", "surrogateescape")
    except OSError:
        return ""


def _assignments(root: Node) -> Iterator[Node]:
    """Every NAME=value that outlives its statement, in the order of the file."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if node.type == "variable_assignment":
            yield node
        elif node.type not in ELSEWHERE and not _local(node):
            waiting += reversed(node.children)


def _local(node: Node) -> bool:
    return node.type == "declaration_command" and (node.text or b"").startswith(b"local")


def _name(node: Node) -> str:
    name = node.child_by_field_name("name")
    return name.text.decode("utf-8", "replace") if name and name.text else ""


def _alone(nodes: list[Node], row: bytes, wanted: Callable[[str], bool]) -> bool:
    """The row is one statement at the top, ends where it ends, and sets nothing that is not wanted."""
    statement = nodes[0]
    while statement.parent is not None and statement.parent.type in SETTING:
        statement = statement.parent
    at_top = statement.parent is not None and statement.parent.type == "program"
    begins, ends = statement.start_point, statement.end_point
    only = statement.type == "variable_assignment" or all(
        wanted(_name(word)) or (word.text or b"") == b"-x" for word in statement.named_children
    )
    around = not row[: begins[1]].strip() and REST.fullmatch(row[ends[1] :]) is not None
    return at_top and begins[0] == ends[0] and only and around
