"""What $(...) prints, as far as it follows from the text: paths alone, such as $(cd "$(dirname "$0")" && pwd)."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from envcheck.core.lint.script_model import UNKNOWN, ShellCommand

if TYPE_CHECKING:
    from tree_sitter import Node

LONGEST = 10  # commands that are compared with each other
# A list is `&&` or `||`: of commands that print paths both sides are the same, unless one fails.
_PARTS = frozenset(["command", "list", "redirected_statement", "comment"])


def read_output(node: Node, commands: Sequence[ShellCommand]) -> str:
    """Return the output of a substitution, UNKNOWN if it does more than to name a path; `commands` are those in it."""
    if not 0 < len(commands) <= LONGEST or not _has_only_commands(node) or any(each.pipeline for each in commands):
        return UNKNOWN
    outputs = [_print(each) for each in commands if not _is_inside_another(each, commands)]
    printed = [text for text in outputs if text]
    return printed[0] if len(printed) == 1 else UNKNOWN


def _print(command: ShellCommand) -> str:
    is_known = command.name in _PRINTED and all(word.is_known for word in command.words) and UNKNOWN not in command.cwd
    return _PRINTED[command.name](command) if is_known else UNKNOWN


def _has_only_commands(node: Node) -> bool:
    return all(
        child.type in _PARTS and (child.type != "list" or _has_only_commands(child)) for child in node.named_children
    )


def _is_inside_another(command: ShellCommand, commands: Sequence[ShellCommand]) -> bool:
    """Whether the command is in a substitution in the words of another one, which has its output."""
    return any(o is not command and o.start <= command.start and command.end <= o.end for o in commands)


def _print_nothing(command: ShellCommand) -> str:
    """The output of cd."""
    return ""


def _print_folder(command: ShellCommand) -> str:
    """The output of pwd, known where a cd to an absolute path precedes it."""
    return posixpath.normpath(command.cwd) if command.cwd.startswith("/") else UNKNOWN


def _print_dirname(command: ShellCommand) -> str:
    paths = _list_operands(command)
    return (posixpath.dirname(paths[0].rstrip("/")) or ".") if len(paths) == 1 else UNKNOWN


def _print_basename(command: ShellCommand) -> str:
    paths = _list_operands(command)
    name = posixpath.basename(paths[0].rstrip("/")) if len(paths) in (1, 2) else UNKNOWN
    return name.removesuffix(paths[1]) if len(paths) == 2 else name


def _print_real_path(command: ShellCommand) -> str:
    """The output of realpath and readlink -f, for a path without links."""
    paths = _list_operands(command)
    path = posixpath.join(command.cwd, paths[0]) if len(paths) == 1 else UNKNOWN
    return posixpath.normpath(path) if path.startswith("/") else UNKNOWN


def _list_operands(command: ShellCommand) -> list[str]:
    return [text for text in command.list_texts()[1:] if not text.startswith("-")]


_PRINTED: dict[str, Callable[[ShellCommand], str]] = {
    "cd": _print_nothing,
    "pwd": _print_folder,
    "dirname": _print_dirname,
    "basename": _print_basename,
    "realpath": _print_real_path,
    "readlink": _print_real_path,
}
