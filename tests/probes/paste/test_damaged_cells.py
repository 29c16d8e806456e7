"""A cell that is masked or cannot be read costs its value, never the row, the device or the table."""

from __future__ import annotations

import importlib
import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from envcheck.cli.commands.parse import PARSERS
from probes.ascend import npu_smi
from probes.kunlunxin import xpu_smi

DATA = Path(__file__).parents[2] / "data"
FOLDERS = {
    "npu-smi": "npu_smi/info",
    "ixsmi": "ixsmi/table",
    "nvidia-smi": "nvidia_smi/table",
    "xpu-smi": "xpu_smi/table",
}
MASKS = ("****", "xxxx:xx:xx.x", "ERR!", "未知", "")
_HEAD = re.compile(r"Version|Name|Bus-Id|Process|MIG|Usage/Cap|Fan|PID|running|-SMI|={5}|-{5}")


def list_tables() -> Iterator[tuple[str, Path]]:
    """The recordings of whole tables with a head and devices."""
    for tool, folder in FOLDERS.items():
        for raw in sorted((DATA / folder).glob("*.txt")):
            label = json.loads(raw.with_suffix(".json").read_text(encoding="utf-8"))
            text = raw.read_text(encoding="utf-8")
            whole = all(line[:1] in "|+" for line in text.splitlines()[1:] if line.strip())
            if label.get("devices") and not label.get("truncated") and whole and "Bus-Id" in text:
                yield tool, raw


def damage_cells(text: str) -> Iterator[str]:
    """The text with one cell of a device row replaced, for each such cell of the first 24 and each mask."""
    lines = text.splitlines()
    rows = [at for at, line in enumerate(lines) if line.count("|") > 3 and not _HEAD.search(line)]
    spots = [(at, *span) for at in rows for span in _list_spans(lines[at])][:24]
    for at, begin, end in spots:
        for mask in MASKS:
            line = lines[at]
            cell = f" {mask}".ljust(end - begin)[: end - begin]
            yield "\n".join([*lines[:at], line[:begin] + cell + line[end:], *lines[at + 1 :]]) + "\n"


def _list_spans(line: str) -> Iterator[tuple[int, int]]:
    bars = [at for at, sign in enumerate(line) if sign == "|"]
    for begin, end in itertools.pairwise(bars):
        if line[begin + 1 : end].strip():
            yield begin + 1, end


@pytest.mark.parametrize(("tool", "raw"), list(list_tables()), ids=lambda value: getattr(value, "stem", value))
def test_one_damaged_cell_costs_no_device(tool: str, raw: Path) -> None:
    parse = importlib.import_module(PARSERS[tool]).parse
    text = raw.read_text(encoding="utf-8")
    whole = parse(text)

    damaged = [parse(each) for each in damage_cells(text)]

    assert damaged
    assert {len(document.devices) for document in damaged} == {len(whole.devices)}
    assert {document.truncated for document in damaged} == {whole.truncated}


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [("OK ", "OK*", "health"), ("0000:", "xxxx:", "bus_id"), ("| OK ", "| 正常", "health")],
)
def test_the_remark_says_what_was_not_read(old: str, new: str, field: str) -> None:
    """Each damaged cell has a remark with its line; its value is None."""
    text = (DATA / "npu_smi/info/310p_duo_no_hbm.txt").read_text(encoding="utf-8").replace(old, new, 1)

    document = npu_smi.parse(text)

    remark = document.remarks[0]
    assert (len(document.remarks), remark.field) == (1, field)
    assert remark.text in text.splitlines()[remark.line - 1]
    assert [getattr(device, field) for device in document.devices].count(None) == 1


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("npu_smi/info/950_own_cells.txt", "Memory-Usage(MB)", "Mem-Usage(MB)   "),
        ("npu_smi/info/950_own_cells.txt", "Hugepages-Usage(page)", "Hugepages-Usa        "),
        ("nvidia_smi/table/a100x8_535.txt", "Bus-Id", "Bus   "),
        ("nvidia_smi/table/a100x8_535.txt", "Memory-Usage", "Mem-Usage   "),
        ("ixsmi/table/biv150_busy_430.txt", "Memory-Usage", "Mem-Us      "),
    ],
)
def test_words_of_the_head_may_be_cut(name: str, old: str, new: str) -> None:
    """The devices are the same, with a word of the head cut or abbreviated."""
    text = (DATA / name).read_text(encoding="utf-8")
    tool = name.partition("/")[0].replace("_", "-")
    parse = importlib.import_module(PARSERS[tool]).parse

    assert old in text
    assert parse(text.replace(old, new)).devices == parse(text).devices


def test_rows_behind_dots() -> None:
    """Somebody left rows out: the others count, and the text is incomplete."""
    text = (DATA / "npu_smi/info/310p_duo_no_hbm.txt").read_text(encoding="utf-8")
    lines = text.splitlines()
    first = next(at for at, line in enumerate(lines) if "+====" in line) + 1
    dotted = "\n".join([*lines[:first], f"... {lines[first]}", *lines[first + 1 :]]) + "\n"

    assert npu_smi.parse(dotted).devices == npu_smi.parse(text).devices
    assert npu_smi.parse(dotted).truncated


@pytest.mark.parametrize("mask", [*MASKS, "OK*"])
@pytest.mark.parametrize("name", ["old_r300_processes", "old_k200_error_state", "old_elided_vf", "old_rows_of_grep"])
def test_one_damaged_cell_of_an_old_table_costs_only_its_value(name: str, mask: str) -> None:
    """Each cell of devices and processes; the size of the cache never becomes the memory of the device."""
    text = (DATA / f"xpu_smi/table/{name}.txt").read_text(encoding="utf-8")
    whole = xpu_smi.parse(text)
    lines = text.splitlines()
    spots = [(at, *span) for at, line in enumerate(lines) if "MB |" in line for span in _list_spans(line)]

    for at, begin, end in spots:
        line = lines[at][:begin] + f" {mask} " + lines[at][end:]
        damaged = xpu_smi.parse("\n".join([*lines[:at], line, *lines[at + 1 :]]) + "\n")

        assert (len(damaged.devices), len(damaged.processes)) == (len(whole.devices), len(whole.processes))
        memories = {device.memory_total_mib for device in damaged.devices}
        assert memories <= {None, *(device.memory_total_mib for device in whole.devices)}
        assert damaged.truncated == whole.truncated


def test_an_empty_left_cell_is_not_a_third_row() -> None:
    """A second row without its fan, temperature and power keeps memory and use; the third row has the cache's size."""
    text = (DATA / "xpu_smi/table/p800_watch.txt").read_text(encoding="utf-8")
    damaged = re.sub(r"(?m)^\| N/A   38C[^|]*\|", lambda found: "|" + " " * (len(found[0]) - 2) + "|", text)

    (first, second), whole = xpu_smi.parse(damaged).devices, xpu_smi.parse(text).devices
    assert damaged != text
    assert (first.memory_total_mib, first.memory_used_mib, first.utilization_percent) == (
        whole[0].memory_total_mib,
        whole[0].memory_used_mib,
        whole[0].utilization_percent,
    )
    assert (first.temperature_c, first.power_w, second) == (None, None, whole[1])
