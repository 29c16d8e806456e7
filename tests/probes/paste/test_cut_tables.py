"""A table that was cut is truncated wherever its borders and rows show it."""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from envcheck.cli.commands.parse import PARSERS
from probes.ascend import npu_smi
from probes.kunlunxin import xpu_smi
from probes.smi import nvidia_smi

DATA = Path(__file__).parents[2] / "data"
FOLDERS = {
    "npu-smi": "npu_smi/info",
    "ixsmi": "ixsmi/table",
    "nvidia-smi": "nvidia_smi/table",
    "xpu-smi": "xpu_smi/table",
}
_RULE = re.compile(r"[+|]?[-=+|]{8,}\s*")
_HEAD = re.compile(r"[A-Za-z ]*\| *(?:Chip|DevID|NPU|GPU)\b(?!.*\d)|\|.*(?:Usage|Process|MIG devices|MIG M\.)")
_TITLE = re.compile(r"\s*(?:DEVICES|VIDEO|PROCESSES)\s*")


def list_tables() -> Iterator[tuple[str, Path]]:
    """The recordings of whole tables in whole lines that begin with a bar."""
    for tool, folder in FOLDERS.items():
        for raw in sorted((DATA / folder).glob("*.txt")):
            label = json.loads(raw.with_suffix(".json").read_text(encoding="utf-8"))
            lines = raw.read_text(encoding="utf-8").splitlines()
            rows = [line for line in lines if line[:1] in ("|", "+", "-")]
            whole = label.get("devices") and not label.get("truncated") and "wrapped" not in raw.stem
            if whole and len(rows) > 5 and _RULE.fullmatch(rows[-1]):
                yield tool, raw


def list_visible_cuts(text: str) -> Iterator[str]:
    """The beginnings of the text after which borders or rows show that the table goes on.

    A whole table may end with a border below a device, below processes, or with the last NPU without processes.
    """
    lines = text.splitlines()
    last_row = max(at for at, line in enumerate(lines) if line[:1] in ("|", "+", "-"))
    for count in range(1, last_row + 1):
        *_, above, last = ["", "", *(line for line in lines[:count] if line.strip())]
        is_end = _RULE.fullmatch(last) and not _RULE.fullmatch(above) and not _HEAD.match(above)
        if not (is_end and not _TITLE.fullmatch(above)) and not last.startswith("| No running processes found in"):
            yield "\n".join(lines[:count]) + "\n"


@pytest.mark.parametrize(("tool", "raw"), list(list_tables()), ids=lambda value: getattr(value, "stem", value))
def test_a_cut_table_is_truncated(tool: str, raw: Path) -> None:
    parse = importlib.import_module(PARSERS[tool]).parse
    text = raw.read_text(encoding="utf-8")

    cut = {each: parse(each) for each in list_visible_cuts(text)}

    assert cut
    assert [
        each for each, document in cut.items() if document.kind in ("info", "table") and not document.truncated
    ] == []
    assert not parse(text).truncated


def test_rule_between_the_chips_of_a_card_is_no_end() -> None:
    """A rule of hyphens is between the chips of one NPU; one of equals signs is below the last."""
    text = (DATA / "npu_smi/info/310p_duo_no_hbm.txt").read_text(encoding="utf-8")
    *rows, end = text.splitlines()
    inner = next(line for line in rows if re.fullmatch(r"\+[-+]{20,}", line))

    assert not npu_smi.parse(text).truncated
    assert npu_smi.parse("\n".join([*rows, inner]) + "\n").truncated
    assert set(end) == {"+", "="}


def test_an_npu_without_an_answer_about_processes() -> None:
    """A table that names one NPU without processes names each: where one is missing, it was cut, also at a border."""
    text = (DATA / "npu_smi/info/910b_sparse_ids.txt").read_text(encoding="utf-8")
    shorter = "\n".join(text.splitlines()[:-2]) + "\n"
    masked = text.replace("found in NPU 2047", "found in NPU ****")

    assert not npu_smi.parse(text).truncated
    assert npu_smi.parse(shorter).truncated
    assert not npu_smi.parse(masked).truncated


def test_a_table_without_processes_may_be_whole() -> None:
    """An output may end with its devices, whose borders are the same between them and below the last."""
    text = (DATA / "nvidia_smi/table/a100x8_535.txt").read_text(encoding="utf-8")
    devices, below, _ = text.partition("\n\n")

    assert not nvidia_smi.parse(devices + "\n").truncated
    assert nvidia_smi.parse(devices + "\n\n" + below + text.splitlines()[-1] + "\n").truncated


def test_a_table_of_processes_may_be_empty() -> None:
    text = (DATA / "nvidia_smi/table/a100x8_535.txt").read_text(encoding="utf-8")
    head, rule, below = text.rpartition("=|\n")
    empty = head + rule + below.splitlines()[-1] + "\n"

    assert (len(nvidia_smi.parse(empty).devices), nvidia_smi.parse(empty).truncated) == (8, False)
    assert nvidia_smi.parse(head + rule).truncated


def test_a_title_without_its_table() -> None:
    text = (DATA / "xpu_smi/table/old_r300_processes.txt").read_text(encoding="utf-8")
    above, title, _ = text.partition("  PROCESSES\n")

    assert not xpu_smi.parse(above).truncated
    assert xpu_smi.parse(above + title).truncated
