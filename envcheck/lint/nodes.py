"""The door to the shell's grammar: tree-sitter and its bash grammar, imported when a script is there to be read."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node

_BEHIND = re.compile(rb"(?m)(<<-?[ \t]*(['\"]?)[A-Za-z_]\w*\2[^\n#'\"]{0,200})&(?=[ \t]*$)")  # cat <<X &
DEPTH = 150  # of nodes inside nodes; a real script has some twenty


def root(raw: bytes) -> Node:
    """The tree of a script; what cannot be read stands in it as ERROR."""
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    # A script that does not end in a line's end leaves a heredoc open for the grammar.
    parser, whole = Parser(Language(tree_sitter_bash.language())), raw if raw.endswith(b"\n") else raw + b"\n"
    found = parser.parse(whole).root_node
    if found.has_error and _BEHIND.search(whole):  # which the grammar does not know; each byte keeps its place
        found = parser.parse(_BEHIND.sub(lambda match: match[1] + b" ", whole)).root_node
    return found


def text(node: Node) -> str:
    return (node.text or b"").decode("utf-8", "replace")
