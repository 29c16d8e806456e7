"""Lines of logs as the field has them, one or more for each entry of the catalogue, and lines that resemble them."""

from __future__ import annotations

from pathlib import Path

from envcheck.core import toml_file
from envcheck.explain.prefilter import DIGITS, select_lines

DATA = Path(__file__).parents[2] / "data" / "diagnose"
FILES = (*sorted(DATA.glob("*.toml")), *sorted(Path(__file__).parent.glob("*_lines.toml")))


def read_lines() -> dict[str, dict[str, list[str]]]:
    """Return the `right` and `miss` lines of each entry, joined if several files have some."""
    found: dict[str, dict[str, list[str]]] = {}
    for path in FILES:
        for name, said in toml_file.load_own_table(path).items():
            mine = found.setdefault(name, {})
            for kind, lines in said.items():
                mine[kind] = [*mine.get(kind, ()), *lines]
    return found


def is_examined(text: str) -> bool:
    """Return whether a log's reader looks at a line of this text."""
    return bool(select_lines([text.encode().translate(None, DIGITS)]))


SAID = tuple(line for said in read_lines().values() for lines in said.values() for line in lines)
