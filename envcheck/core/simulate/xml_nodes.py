"""XML as the tools print it: one element a line, indented with tabs."""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import escape

Node = tuple[str, "str | Sequence[Node]"]  # a tag with its attributes, and the text or the nodes in it


def render_node(node: Node, depth: int = 0) -> list[str]:
    """Return the lines of an element."""
    tag, content = node
    indent, end = "\t" * depth, tag.split()[0]
    if isinstance(content, str):
        return [f"{indent}<{tag}>{escape(content)}</{end}>\n"]
    inner = [line for child in content for line in render_node(child, depth + 1)]
    return [f"{indent}<{tag}>\n", *inner, f"{indent}</{end}>\n"]


def memory_nodes(total: int, used: int, reserved: int = 0) -> list[Node]:
    """Return the four figures of a memory, in MiB."""
    figures = (("total", total), ("reserved", reserved), ("used", used), ("free", total - used - reserved))
    return [(name, f"{mib} MiB") for name, mib in figures]
