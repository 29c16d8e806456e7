"""Lines of logs as the field has them, one or more for each entry of the catalogue, and lines that resemble them."""

from __future__ import annotations

from pathlib import Path

from envcheck.core import toml_file

DATA = Path(__file__).parents[2] / "data" / "diagnose"
SAID = tuple(
    line
    for path in sorted(DATA.glob("*.toml"))
    for said in toml_file.table(path.read_text(encoding="utf-8"), path.name, "").values()
    for lines in said.values()
    for line in lines
)
