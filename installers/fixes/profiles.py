"""Lines of shell profiles that set a variable: those that can be commented out, and those that only a person can
change.

A line inside `if`, a function or a loop, or with other commands, is not changed: the shell might not start without it.
The same is true of every line of a profile that the parser does not understand completely.
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
ELSEWHERE = (
    "subshell",
    "command_substitution",
    "process_substitution",
    "command",
)  # assignments inside have no effect outside
SETTING = ("declaration_command", "variable_assignment", "variable_assignments")
REST = re.compile(rb"\s*(?:;\s*)?(#.*)?")  # what may follow a statement on a line that is commented out


@dataclass(frozen=True)
class ProfileLine:
    """A line that sets variables; `number` counts from 1.  `alone`: at most a comment is on the same line."""

    number: int
    text: str
    names: tuple[str, ...]
    alone: bool


def find_assignments(path: Path, wanted: Callable[[str], bool]) -> list[ProfileLine]:
    """Return the lines that set a wanted variable for more than one command; empty if the file is unreadable."""
    text = _read_text(path)
    if not any(wanted(word) for word in set(re.findall(r"\b\w+(?==)", text))):
        return []
    from envcheck.scripts import shell_grammar

    raw = text.encode("utf-8", "surrogateescape")
    try:
        root, rows = shell_grammar.parse_shell(raw), raw.split(b"\n")
    except ModuleNotFoundError:  # envcheck.pyz has no parser: report the lines as manual changes
        return list(_match_lines(text, wanted))
    found: dict[int, list[Node]] = {}
    for node in _walk_assignments(root):
        if wanted(_variable_name(node)):
            found.setdefault(node.start_point[0], []).append(node)
    return [
        ProfileLine(
            row + 1,
            rows[row].decode("utf-8", "surrogateescape"),
            tuple(map(_variable_name, there)),
            not root.has_error and _is_removable(there, rows[row], wanted),
        )
        for row, there in sorted(found.items())
    ]


def _match_lines(text: str, wanted: Callable[[str], bool]) -> Iterator[ProfileLine]:
    """Yield lines that look like assignments; used without a parser."""
    for number, line in enumerate(text.split("\n"), 1):
        if names := tuple(name for name in re.findall(r"\b(\w+)=", line.partition("#")[0]) if wanted(name)):
            yield ProfileLine(number, line, names, alone=False)


def _read_text(path: Path) -> str:
    try:
        if not path.is_file() or path.stat().st_size > LIMIT:
            return ""
        return path.read_bytes().decode("utf-8", "surrogateescape")
    except OSError:
        return ""


def _walk_assignments(root: Node) -> Iterator[Node]:
    """Yield every NAME=value that outlives its statement, in file order."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if node.type == "variable_assignment":
            yield node
        elif node.type not in ELSEWHERE and not _is_local(node):
            waiting += reversed(node.children)


def _is_local(node: Node) -> bool:
    return node.type == "declaration_command" and (node.text or b"").startswith(b"local")


def _variable_name(node: Node) -> str:
    name = node.child_by_field_name("name")
    return name.text.decode("utf-8", "replace") if name and name.text else ""


def _is_removable(nodes: list[Node], row: bytes, wanted: Callable[[str], bool]) -> bool:
    """Return whether the line is one complete top-level statement that sets wanted variables only."""
    statement = nodes[0]
    while statement.parent is not None and statement.parent.type in SETTING:
        statement = statement.parent
    at_top = statement.parent is not None and statement.parent.type == "program"
    begins, ends = statement.start_point, statement.end_point
    only = statement.type == "variable_assignment" or all(
        wanted(_variable_name(word)) or (word.text or b"") == b"-x" for word in statement.named_children
    )
    around = not row[: begins[1]].strip() and REST.fullmatch(row[ends[1] :]) is not None
    return at_top and begins[0] == ends[0] and only and around
