"""Access to the shell grammar: tree-sitter and its bash grammar, imported when the first script is parsed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node

_BEHIND = re.compile(rb"(?m)(<<-?[ \t]*(['\"]?)[A-Za-z_]\w*\2[^\n#'\"]{0,200})&(?=[ \t]*$)")  # cat <<X &
_LAST_CONTINUED = re.compile(rb"(?<!\\)\\\n(?=[ \t]*(?:\n|\Z))")  # a backslash before an empty line continues nothing
_BRACKETS = re.compile(rb"[][(){}]")
_BLANKS = re.compile(rb"(?:\s|\\\n)+")
_NEWLINE = re.compile(rb"(?<!\\)\n")
_TRIES, _LARGE = 4, 1 << 18  # bytes
EXPANSIONS = ("simple_expansion", "expansion", "command_substitution", "arithmetic_expansion")
DEPTH = 150  # depth of nodes; a real script has about twenty


def parse_shell(raw: bytes) -> Node:
    """Return the syntax tree of a script; unparsable parts are ERROR nodes."""
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    # Without a final line end, the grammar does not close a here-document.
    parser, whole = Parser(Language(tree_sitter_bash.language())), raw if raw.endswith(b"\n") else raw + b"\n"
    found = parser.parse(whole).root_node
    if found.has_error and _BEHIND.search(whole):  # unknown to the grammar; each byte keeps its place
        whole = _BEHIND.sub(lambda match: match[1] + b" ", whole)
        found = parser.parse(whole).root_node
    if found.has_error and _LAST_CONTINUED.search(whole):
        whole = _LAST_CONTINUED.sub(b" \n", whole)
        found = parser.parse(whole).root_node
    for _ in range(_TRIES if len(whole) < _LARGE else 0):
        if not (ends := list(_find_missed_ends(found, whole))):
            break
        parted = bytearray(whole)
        for at in ends:
            parted[at] = ord(";")
        whole = bytes(parted)
        found = parser.parse(whole).root_node
    return found


def _find_missed_ends(root: Node, raw: bytes) -> Iterator[int]:
    """Ends of statements that the grammar (0.25) misses.

    At the end of a line with several assignments, and of a pipeline of three commands before an assignment.  Before a
    comment at the end of a line, its blank takes the place of the line end.
    """
    for node in _iterate_nodes(root):
        if node.type not in ("command", "variable_assignments"):
            continue
        children = node.children
        if node.start_point[0] == node.end_point[0] or any("heredoc" in child.type for child in children):
            continue
        for one, other in pairwise(children):
            found = _NEWLINE.search(raw, one.end_byte, other.start_byte)
            if found and one.type != "comment":
                yield found.start()
            elif found and raw[one.start_byte - 1] in b" \t":
                yield one.start_byte - 1


def _iterate_nodes(root: Node) -> Iterator[Node]:
    """Yield the node and all its descendants."""
    cursor, back = root.walk(), False
    while True:
        if not back and cursor.node is not None:
            yield cursor.node
        if not back and cursor.goto_first_child():
            continue
        if cursor.goto_next_sibling():
            back = False
        elif cursor.goto_parent():
            back = True
        else:
            return


def measure_nesting(raw: bytes) -> int:
    """Return how many brackets are open at the same time at most, quoted ones included; takes linear time."""
    depth = deepest = 0
    for found in _BRACKETS.finditer(raw):
        depth = max(0, depth + (1 if found[0] in b"([{" else -1))
        deepest = max(deepest, depth)
    return deepest


def read_text(node: Node) -> str:
    """Return the source text of a node."""
    return (node.text or b"").decode("utf-8", "replace")


def count_leading_blanks(node: Node) -> int:
    """Return the blanks that the grammar (0.25) adds to an expansion, in quotes and directly after another one.

    They include the ends of continued lines.
    """
    if node.type not in EXPANSIONS:
        return 0
    leading = _BLANKS.match(node.text or b"")
    return leading.end() if leading else 0
