"""Every recording under tests/data/<tool> parses to the JSON file next to it."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest

from envcheck.cli.commands.parse import PARSERS, as_json

DATA = Path(__file__).parents[1] / "data"
TOOLS = {tool.replace("-", "_"): module for tool, module in PARSERS.items()}
CASES = sorted(
    raw
    for folder in TOOLS
    for raw in (DATA / folder).glob("*/*")
    if raw.suffix in (".txt", ".xml", ".csv") and raw.is_file()
)


def list_differences(want: Any, got: Any, where: str = "") -> list[str]:
    """Paths where `got` lacks or contradicts a value of `want`; keys absent from `want` are not compared."""
    if isinstance(want, dict) and isinstance(got, dict):
        return [
            d
            for key, value in want.items()
            for d in list_differences(value, got.get(key, "(absent)"), f"{where}.{key}")
        ]
    if isinstance(want, list) and isinstance(got, list) and len(want) == len(got):
        return [
            d for at, pair in enumerate(zip(want, got, strict=True)) for d in list_differences(*pair, f"{where}[{at}]")
        ]
    return [] if want == got else [f"{where}: wanted {want!r}, got {got!r}"]


@pytest.mark.parametrize("raw", CASES, ids=lambda path: "/".join(path.parts[-3:]))
def test_recorded_output(raw: Path) -> None:
    """The recording parses to the JSON file next to it."""
    module = importlib.import_module(TOOLS[raw.parts[-3]])
    wanted = json.loads(raw.with_suffix(".json").read_text(encoding="utf-8"))
    document = module.parse(raw.read_bytes().decode("utf-8", "replace"))

    assert list_differences(wanted, as_json(document)) == []


@pytest.mark.parametrize("folder", sorted({case.parts[-3] for case in CASES}))
def test_every_folder_says_where_its_texts_come_from(folder: str) -> None:
    """Each tool's folder has a README that names every family of its texts."""
    told = (DATA / folder / "README.md").read_text(encoding="utf-8")
    families = {case.parts[-2] for case in CASES if case.parts[-3] == folder}

    assert [family for family in sorted(families) if f"`{family}" not in told] == []
