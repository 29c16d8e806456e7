"""The door to the shell's grammar: tree-sitter and its bash grammar, imported when a script is there to be read."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node

DEPTH = 150  # of nodes inside nodes; a real script has some twenty


def root(raw: bytes) -> Node:
    """The tree of a script; what cannot be read stands in it as ERROR."""
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    # A script that does not end in a line's end leaves a heredoc open for the grammar.
    return Parser(Language(tree_sitter_bash.language())).parse(raw if raw.endswith(b"\n") else raw + b"\n").root_node


def text(node: Node) -> str:
    return (node.text or b"").decode("utf-8", "replace")
