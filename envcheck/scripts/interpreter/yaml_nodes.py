"""Nodes of a YAML file with their places: fields with what << brings, scalars as compose fills them in.

Compose fills in ${NAME:-default}, and makes $$ a dollar.
"""

from __future__ import annotations

import re
from typing import Any

from envcheck.core.lint.model import UNKNOWN, Block, Word
from envcheck.scripts.configs import Offsets, foreign

ITEMS = 200  # of a list or a mapping
DEPTH, MERGES = 5, 1000  # of << inside <<, and of all that are followed in a file
_FILLED = re.compile(r"\$\$|\$\{(\w+)(?::?([-?+])([^}]*))?\}|\$(\w+)")


class Reader:
    """One file; places are the file's."""

    def __init__(self, block: Block, text: str) -> None:
        self.block, self.text, self.offsets = block, text, Offsets(text)
        self.merges = 0

    def at(self, index: int) -> int:
        return self.block.at(self.offsets(index))

    def word(self, node: Any, text: str | None = None) -> Word:
        start = self.at(node.start_mark.index) + (getattr(node, "style", None) in ("'", '"'))
        value, soft = filled(str(node.value) if text is None else text)
        return Word(value, start, max(start + 1, self.at(node.end_mark.index)), soft=soft)

    def fields(self, node: Any, depth: int = 0) -> dict[str, tuple[Any, Any]]:
        """Keys of a mapping with the nodes of key and value; its own win over those that << brings."""
        found: dict[str, tuple[Any, Any]] = {}
        if getattr(node, "id", "") != "mapping" or depth > DEPTH or self.merges > MERGES:
            return found
        for key, value in node.value[:ITEMS]:
            if key.id != "scalar":
                continue
            if key.value == "<<":
                self.merges += 1
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
