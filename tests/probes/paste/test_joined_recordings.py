"""Recordings joined together give their documents, whatever each of them is; where a text does not decide, no device
is invented."""

from __future__ import annotations

import dataclasses
import itertools
import random
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

import pytest

from envcheck.core.model import Device, Document
from probes.paste.paste_parser import NOTHING, make_splitter, parse_paste
from tests.probes.paste.test_paste_parser import DATA, DECORATIONS, RECORDINGS, TOOLS

SPLITTER = make_splitter(TOOLS)
ROUNDS = 400
# Recording → kinds of the output above that it continues, () for any: its text tells nothing else.
UNDECIDED = {
    "prose": ((), "its last line has the form of a key and a value"),
    "session-910a-healthy": (("hccn",), "its first line has the form of a key and a value"),
    "a100x8_535_quoted": (("hccn",), "its first line has the form of a key"),
    "info-process-table-only": (("info",), "the processes of the table above them"),
}
# Answers of which each may have more lines: nothing tells where the next one begins.
UNDECIDED_GROUPS = (
    # Processes of a chip, and of several devices, as a loop over them prints them.
    ("proc-mem-950", "proc-mem-910b3", "two_processes", "wrapped_in_a_number", "idle_chip"),
    # Boards of several devices, and errors of their chips, as a loop prints them.
    ("board-310b-25.5.0", "numbers_that_are_names"),
    ("board-910b-25.5.1", "numbers_that_are_names"),
    ("ecc-910", "310p_double_bit"),
    ("hccn-link-down",),  # links of several ports, as a loop prints them
    ("hccn-gateway",),
    ("hccn-net-health-socket-failed",),
    ("three_commands", "hccn-ip-route"),  # more commands about the same port
)


def is_undecided(first: Path, second: Path) -> bool:
    """Whether the text does not decide that the second recording is an output of its own."""
    if second.stem in UNDECIDED:
        kinds, _ = UNDECIDED[second.stem]
        last = [each for each in list_own_documents(first) if each.tool == "npu-smi"]
        return any(not kinds or each.kind in kinds for each in last)
    return any({first.stem, second.stem} <= {*group} for group in UNDECIDED_GROUPS)


@lru_cache(maxsize=1000)
def read_text(file: Path) -> str:
    text = file.read_bytes().decode("utf-8", "replace").replace("\r\n", "\n")
    return text if text.endswith("\n") else f"{text}\n"


def list_documents(text: str) -> list[Document]:
    """The documents of all outputs, without what the text around them decides; a repeated answer counts once."""
    document = parse_paste(text, TOOLS, splitter=SPLITTER)
    found = [
        dataclasses.replace(each, command="", host="", truncated=False, remarks=(), parts=())
        for each in document.parts or (document,)
        if each.kind not in NOTHING
    ]
    return [each for each, _ in itertools.groupby(found)]


@lru_cache(maxsize=1000)
def list_own_documents(file: Path) -> tuple[Document, ...]:
    return tuple(list_documents(read_text(file)))


def describe_devices(documents: Iterable[Document]) -> set[tuple[object, ...]]:
    """What no other device has: its names and numbers, not the values that a cut may cost."""
    devices = (device for document in documents for device in document.devices)
    return {(each.index, each.npu, each.chip, each.bus_id, each.uuid) for each in devices}


def is_undecided_tool(expected: Document, found: Document, text: str) -> bool:
    """Whether the formats are those of several tools, and no word of the text hints at one: its neighbour decides."""
    is_same = dataclasses.replace(expected, tool="") == dataclasses.replace(found, tool="")
    return is_same and not TOOLS["nvidia-smi"].forms.has_hint(text)


def list_wrong_joins(pairs: Iterable[tuple[Path, Path]]) -> list[tuple[str, str]]:
    wrong = []
    for first, second in pairs:
        expected = [*list_own_documents(first), *list_own_documents(second)]
        expected = [each for each, _ in itertools.groupby(expected)]
        found = list_documents(f"{read_text(first)}\n{read_text(second)}")
        if is_undecided(first, second):
            if not describe_devices(found) <= describe_devices(expected):
                wrong.append((first.name, second.name))
        elif len(found) != len(expected) or not all(
            one == other or is_undecided_tool(one, other, read_text(second))
            for one, other in zip(expected, found, strict=True)
        ):
            wrong.append((first.name, second.name))
    return wrong


def test_random_pairs_give_their_documents() -> None:
    """Of all recordings, also of messages, keys and rows without a head."""
    drawn = random.Random(1)

    assert list_wrong_joins((drawn.choice(RECORDINGS), drawn.choice(RECORDINGS)) for _ in range(ROUNDS)) == []


@pytest.mark.extended
@pytest.mark.parametrize("first", RECORDINGS, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_all_pairs_give_their_documents(first: Path) -> None:
    assert list_wrong_joins((first, second) for second in RECORDINGS) == []


CUT_ROW = read_text(DATA / "xpu_smi/table/p800_cut_in_second_row.txt")
CSV_ROWS = "nvidia-smi --query-gpu=index,name,memory.total --format=csv,noheader,nounits\n0, NVIDIA GB10, [N/A]\n"
# Two outputs, by the text or by the file of each, whose texts decide where the second one begins.
DECIDED = {
    "rows of grep": ("xpu_smi/table/p800_grep_first_rows.txt", "xpu_smi/table/old_head_missing.txt"),
    "two rules above a table": (
        CUT_ROW,
        f"+{'=' * 27}+{'=' * 15}+\n+{'-' * 27}+{'-' * 15}+\n"
        "| NPU     Chip              | Process id    | Process name | Process memory(MB) |\n"
        f"+{'=' * 27}+{'=' * 15}+\n| 0       0                 | 47928         | python       | 90                 |\n",
    ),
    "a port again": ("npu_smi/hccn/tls.txt", "npu_smi/hccn/tls.txt"),
    "cells of other forms": (CSV_ROWS, "0, GPU-0a1b2c3d-0000-1111-2222-333344445550, 31 MiB\n"),
    "numbers below UUIDs": (
        "nvidia-smi --query-gpu=index,uuid,fan.speed --format=csv,noheader,nounits\n"
        "0, GPU-0a1b2c3d-0000-1111-2222-333344445550, 31\n",
        "0, 297.37, 0x0000000000000004\n1, 289.76, 0x0000000000000004\n",
    ),
    "a text of help": ("xpu_smi/unknown/help.txt", "xpu_smi/machine/p800_in_source.txt"),
    "the first message again": ("nvidia_smi/error/lost_then_none.txt", "nvidia_smi/error/lost_then_none.txt"),
    "a gap above a rule": (
        "ixsmi/table/biv100_tail_without_head.txt",
        f"+{'-' * 31}+{'-' * 22}+{'-' * 22}+\n"
        "| 4    Iluvatar BI-V100         | 00000000:1E:00.0     | 1500MHz   1200MHz    |\n"
        "| 0%   32C   P0    55W / 250W   | 513MiB / 32768MiB    | 0%        Default    |\n",
    ),
    "behind the last chip": ("npu_smi/ecc/310p_double_bit.txt", "npu_smi/types/die_to_die.txt"),
    "a bus again": ("npu_smi/lspci/numbers_and_strangers.txt", "npu_smi/lspci/numbers_and_strangers.txt"),
    "no number of a line": ("npu_smi/files/driver_numbered_lines.txt", "    26C 50W 513MiB 32768MiB 0%\n" * 2),
}


@pytest.mark.parametrize("pair", DECIDED.values(), ids=DECIDED)
def test_pairs_whose_texts_decide(pair: tuple[str, str]) -> None:
    first, second = (each if "\n" in each else read_text(DATA / each) for each in pair)
    expected = [each for each, _ in itertools.groupby([*list_documents(first), *list_documents(second)])]

    assert list_documents(f"{first}\n{second}") == expected


PLAIN = [file for file in RECORDINGS if list_own_documents(file)]
DRESSES = (
    *("colour", "lost colours", "host", "mpirun", "stamped", "answered", "numbered", "nbsp", "markdown", "two blanks"),
    *("kernel log", "container log", "logger", "root logger", "full width"),
)
OUTER = {
    "fenced": lambda text: f"```\n{text}```\n",
    "quoted": lambda text: "".join(f"> {line}\n" for line in text.splitlines()),
    "CRLF": lambda text: text.replace("\n", "\r\n"),
    "prompt": lambda text: f"{text}[root@node7 ~]# uptime\n 10:00:00 up 3 days\n[root@node7 ~]# \n",
    "prose": lambda text: f"And this is the other one.\n\n{text}\nThat is all.\n",
    **{name: DECORATIONS[name] for name in DRESSES},
}


@pytest.mark.parametrize("count", [3, 4])
def test_devices_of_several_recordings_in_any_surroundings(count: int) -> None:
    """Each recording in a decoration, a prompt or prose of its own: no device is lost or invented."""
    drawn = random.Random(count)
    own = [file for file in PLAIN if file.is_relative_to(DATA)]  # the same draws in every checkout
    tables = [file for file in own if len(list_own_documents(file)) == 1 and list_own_documents(file)[0].devices]
    wrong = []
    for _ in range(ROUNDS // 4):
        files = drawn.sample(tables, count)
        around = [drawn.choice([*OUTER]) for _ in files]
        text = "\n".join(OUTER[name](read_text(file)) for name, file in zip(around, files, strict=True))
        expected = [list_own_documents(file)[0] for file in files]
        if describe_devices(list_documents(text)) != describe_devices(expected):
            wrong.append([(file.name, name) for file, name in zip(files, around, strict=True)])

    assert wrong == []


MESSAGES = [
    ("nvidia-smi", "Failed to initialize NVML: Driver/library version mismatch", "driver-library-mismatch"),
    ("nvidia-smi", "No devices were found", "no-device"),
    (
        "nvidia-smi",
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.",
        "driver-not-loaded",
    ),
    ("npu-smi", "dcmi module initialize failed. ret is -8005", "dcmi-init-failed"),
    ("xpu-smi", "No XPUs were found", "no-device"),
    ("nvidia-smi", "ERROR: Option noheader is not recognized. Please run 'nvidia-smi -h' for help.", "bad-query"),
]
PREFIXES = [
    ("node1: ", "node1"),
    ("10.0.0.7: ", "10.0.0.7"),
    ("3: ", "3"),
    ("# ", ""),
    ("> ", ""),
    ("[ERROR] ", ""),
    ("   12\t", ""),
    ("[1,0]<stderr>: ", ""),
    ("2026-11-27T10:00:00.123Z ", ""),
]


@pytest.mark.parametrize(("tool", "message", "category"), MESSAGES)
@pytest.mark.parametrize(("prefix", "host"), PREFIXES)
@pytest.mark.parametrize("table", ["", "nvidia_smi/table/a100x8_535.txt"], ids=["alone", "below a table"])
def test_a_single_line_behind_a_prefix(
    tool: str, message: str, category: str, prefix: str, host: str, table: str
) -> None:
    """The prefix is not content, and a host is known by it, also where no other line has the prefix."""
    above = read_text(next(file for file in RECORDINGS if str(file).endswith(table))) + "\n" if table else ""

    found = parse_paste(f"{above}{prefix}{message}\n", TOOLS)

    document = found.parts[-1] if table else found
    assert (document.tool, document.host) == (tool, host)
    assert document.error and (document.error.category, document.error.message) == (category, message)


@pytest.mark.parametrize(
    "message",
    [
        "bash: /usr/local/bin/xpu-smi: Permission denied",
        "zsh: command not found: xpu-smi",
        "bash: xpu-smi：未找到命令",
        'OCI runtime exec failed: exec: "xpu-smi": executable file not found in $PATH: unknown',
    ],
)
def test_the_shell_names_the_tool(message: str) -> None:
    """A message about a program belongs to the tool of that name, alone and below another tool's output."""
    below = read_text(next(file for file in RECORDINGS if file.stem == "a100x8_535"))

    for found in (parse_paste(f"{message}\n", TOOLS), parse_paste(f"{below}\n{message}\n", TOOLS).parts[-1]):
        assert (found.tool, found.kind) == ("xpu-smi", "error")


FOREIGN_TABLE = """\
+-----------------------------------------------------------------------------+
| PPU-SMI 1.2           Driver Version: 2.1.2        HGGC Version: N/A        |
|-------------------------------+----------------------+----------------------+
|   0  PPU-ZW810E         N/A   | 00000001:C9:00.0     |                    0 |
| N/A   38C  N/A     81W / 400W |      1MiB / 98304MiB |      0%      Default |
+-------------------------------+----------------------+----------------------+
"""


@pytest.mark.parametrize("tool", [None, "nvidia-smi", "xpu-smi"])
def test_another_vendors_table_is_no_output(tool: str | None) -> None:
    """A table of the same form under another program's name has no devices of ours, alone and below one."""
    own = read_text(next(file for file in RECORDINGS if file.stem == "a100x8_535"))

    assert parse_paste(FOREIGN_TABLE, TOOLS, tool).devices == ()
    assert len(parse_paste(f"{own}\n{FOREIGN_TABLE}", TOOLS, "nvidia-smi").devices) == 8


def test_a_markdown_table_below_an_output_is_no_row() -> None:
    own = read_text(next(file for file in RECORDINGS if file.stem == "a100x8_535"))
    table = "\n| id | name | note |\n|----|------|------|\n| 1 | GPU-Util | 5MiB / 10MiB |\n"

    assert parse_paste(own + table, TOOLS).devices == parse_paste(own, TOOLS).devices


def test_a_log_twice_has_its_devices_once() -> None:
    """Rows without a head are numbered by their position: a second sample is not of further devices."""
    log = "2026-03-24-10:13:48\n36C 88W 513MiB 98304MiB 0%\n37C 90W 600MiB 98304MiB 12%\n"
    devices: tuple[Device, ...] = parse_paste(log, TOOLS).devices

    assert len(devices) == 2
    assert parse_paste(log + log, TOOLS).devices == devices
