"""What $(...) prints, as far as it follows from the text: paths alone, such as $(cd "$(dirname "$0")" && pwd)."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from envcheck.core.lint.script_model import UNKNOWN, ShellCommand
from envcheck.scripts.operands import list_operands
from envcheck.scripts.shell_grammar import read_text

if TYPE_CHECKING:
    from tree_sitter import Node

LONGEST = 10  # commands that are compared with each other
# A list is `&&` or `||`: of commands that print paths both sides are the same, unless one fails.
_WITH_PARTS = ("list", "redirected_statement")
_PARTS = frozenset(["command", "file_redirect", "comment", *_WITH_PARTS])
_KEPT = re.compile(r"\s*(?:2>|<)")  # redirects that leave the output where it is: of the errors, of the input


def read_output(node: Node, commands: Sequence[ShellCommand]) -> str:
    """Return the output of a substitution, UNKNOWN if it does more than to name a path; `commands` are those in it."""
    if not 0 < len(commands) <= LONGEST or not _has_only_commands(node) or any(each.pipeline for each in commands):
        return UNKNOWN
    outputs = [_print(each) for each in commands if not _is_inside_another(each, commands)]
    printed = [text for text in outputs if text]
    return printed[0] if len(printed) == 1 else UNKNOWN


def _print(command: ShellCommand) -> str:
    is_known = command.name in _PRINTED and all(word.is_known for word in command.words) and UNKNOWN not in command.cwd
    text = _PRINTED[command.name](command) if is_known else UNKNOWN
    return text if all(_KEPT.match(each.text) for each in command.redirects) else text and UNKNOWN


def _has_only_commands(node: Node) -> bool:
    """Whether the node has commands and lists of them alone, and no redirect of what a list prints."""
    waiting = [node]
    while waiting:
        each = waiting.pop()
        body = each.child_by_field_name("body")
        redirects = [child for child in each.named_children if child.type == "file_redirect"]
        is_list_redirected = (
            body is not None
            and body.type == "list"
            and not all(_KEPT.match(read_text(redirect)) for redirect in redirects)
        )
        if is_list_redirected or not all(child.type in _PARTS for child in each.named_children):
            return False
        waiting += [child for child in each.named_children if child.type in _WITH_PARTS]
    return True


def _is_inside_another(command: ShellCommand, commands: Sequence[ShellCommand]) -> bool:
    """Whether the command is in a substitution in the words of another one, which has its output."""
    return any(o is not command and o.start <= command.start and command.end <= o.end for o in commands)


def _print_nothing(command: ShellCommand) -> str:
    """The output of cd."""
    return ""


def _print_folder(command: ShellCommand) -> str:
    """The output of pwd, known where a cd to an absolute path precedes it."""
    is_known = command.cwd.startswith("/") and list_operands(command) is not None
    return posixpath.normpath(command.cwd) if is_known else UNKNOWN


def _print_dirname(command: ShellCommand) -> str:
    path = _find_operand(command)
    return UNKNOWN if path is None else _remove_end(posixpath.dirname(path.rstrip("/") or path)) or "."


def _print_basename(command: ShellCommand) -> str:
    first, *suffixes = list_operands(command) or [UNKNOWN]
    if first == UNKNOWN or len(suffixes) > 1:
        return UNKNOWN
    name = posixpath.basename(_remove_end(first)) or first[:1]
    return name if name in suffixes else name.removesuffix("".join(suffixes))


def _print_real_path(command: ShellCommand) -> str:
    """The output of realpath and readlink -f, for a path without links."""
    path = posixpath.join(command.cwd, _find_operand(command) or UNKNOWN)
    return posixpath.normpath("/" + path.lstrip("/")) if path.startswith("/") and UNKNOWN not in path else UNKNOWN


def _print_link(command: ShellCommand) -> str:
    """The output of readlink, known with -f and similar; without, it is the target of a link."""
    return _print_real_path(command) if re.match("--?[a-z]", "".join(command.list_texts()[1:2])) else UNKNOWN


def _find_operand(command: ShellCommand) -> str | None:
    """The operand of a command that has one, and no option that may change the output."""
    operands = list_operands(command)
    return operands[0] if operands is not None and len(operands) == 1 else None


def _remove_end(path: str) -> str:
    """The path without slashes at its end; the root is one slash."""
    return path.rstrip("/") or path[:1]


_PRINTED: dict[str, Callable[[ShellCommand], str]] = {
    "cd": _print_nothing,
    "pwd": _print_folder,
    "dirname": _print_dirname,
    "basename": _print_basename,
    "realpath": _print_real_path,
    "readlink": _print_link,
}
