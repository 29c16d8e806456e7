"""YAML nodes with their places: fields including << merges, scalars with compose's interpolation.

Compose replaces ${NAME:-default}, and turns $$ into a dollar sign.
"""

from __future__ import annotations

import re
from typing import Any

from envcheck.core.lint.script_model import UNKNOWN, ShellWord, SourceBlock
from envcheck.scripts.config_files import ByteOffsets, find_foreign_tag

ITEMS = 2000  # items of a list or mapping
DEPTH, MERGES = 5, 1000  # depth of nested <<, and number of << followed in a file
_FILLED = re.compile(r"\$\$|\$\{(\w+)(?::?([-?+])([^}]{0,400}))?\}|\$(\w+)")


class YamlReader:
    """Reads the nodes of one block; places are those in the file."""

    def __init__(self, block: SourceBlock, text: str) -> None:
        self.block, self.text, self.offsets = block, text, ByteOffsets(text)
        self.merges = 0

    def locate_index(self, index: int) -> int:
        """Return the place in the file, in bytes, of a character index."""
        return self.block.map_to_file(self.offsets(index))

    def make_word(self, node: Any, text: str | None = None) -> ShellWord:
        """Return a scalar as a word, after compose's interpolation; `text` replaces its value."""
        start = self.locate_index(node.start_mark.index) + (getattr(node, "style", None) in ("'", '"'))
        value, soft = fill_variables(str(node.value) if text is None else text)
        return ShellWord(value, start, max(start + 1, self.locate_index(node.end_mark.index)), soft=soft)

    def read_fields(self, node: Any, depth: int = 0) -> dict[str, tuple[Any, Any]]:
        """Return key → (key node, value node) of a mapping; its own keys override merged ones."""
        found: dict[str, tuple[Any, Any]] = {}
        if getattr(node, "id", "") != "mapping" or depth > DEPTH or self.merges > MERGES:
            return found
        for key, value in node.value[:ITEMS]:
            if key.id != "scalar":
                continue
            if key.value == "<<":
                self.merges += 1
                for each in value.value[:ITEMS] if value.id == "sequence" else [value]:
                    found = {**self.read_fields(each, depth + 1), **found}
            else:
                found[str(key.value)] = (key, value)
        return found


def fill_variables(text: str) -> tuple[str, bool]:
    """Return the text after compose's interpolation, and whether it contains a default."""
    soft = bool(re.search(r"(?<!\$)\$\{\w+:?-", text))

    def fill(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        return match[3] if match[2] == "-" else UNKNOWN

    return _FILLED.sub(fill, text), soft


def list_scalars(node: Any) -> list[Any]:
    """Return the scalars of a list, or a single scalar in place of a list."""
    nodes = node.value[:ITEMS] if node.id == "sequence" else [node]
    return [each for each in nodes if each.id == "scalar" and not find_foreign_tag(each.tag)]
