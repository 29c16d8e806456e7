"""Special cases of the nvidia-smi parser; recordings and expected documents are in tests/data/nvidia_smi."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from envcheck.core.model import Document
from probes.smi import error_phrases, nvidia_smi, output_kinds, process_rows, table_cells

DATA = Path(__file__).parents[1] / "data" / "nvidia_smi"
TABLE = (DATA / "table" / "a100x8_535.txt").read_text(encoding="utf-8")
XML = (DATA / "xml" / "a100x2_v12.xml").read_text(encoding="utf-8")
CATEGORIES = {
    "tool-not-found", "library-not-found", "permission-denied", "no-device", "device-lost", "device-busy",
    "device-blocked", "device-not-initialised", "driver-not-loaded", "driver-library-mismatch",
    "container-lost-devices", "unsupported-query", "bad-query", "mig-pending",
}  # fmt: skip


def list_devices(document: Document) -> list[tuple[object, ...]]:
    return [(d.index, d.name, d.bus_id, d.memory_total_mib) for d in document.devices]


def wrap_lines(text: str, width: int) -> str:
    pieces = ([line[at : at + width] for at in range(0, max(1, len(line)), width)] for line in text.split("\n"))
    return "\n".join(piece for line in pieces for piece in line)


DRESSES = {
    "quoted": lambda text: re.sub(r"(?m)^", "> ", text),
    "commented": lambda text: re.sub(r"(?m)^", "# ", text),
    "indented": lambda text: re.sub(r"(?m)^", "\t  ", text),
    "stamped": lambda text: re.sub(r"(?m)^", "2025-02-03T10:11:12.123Z ", text),
    "in a container's log": lambda text: re.sub(r"(?m)^", "worker-0  | ", text),
    "coloured": lambda text: re.sub(r"(?m)^(.*)$", "\x1b[1;32m\\1\x1b[0m", text),
    "of a web page": lambda text: text.replace(" ", "\u00a0"),
    "of Windows": lambda text: "\ufeff" + text.replace("\n", "\r\n"),
    "in a session": lambda text: f"root@node:~# nvidia-smi\n{text}root@node:~# ls | wc -l\n12\n",
    "with every other line blank": lambda text: text.replace("\n", "\n\n"),
}


@pytest.mark.parametrize("dress", DRESSES)
@pytest.mark.parametrize("text", [TABLE, XML], ids=["table", "xml"])
def test_what_stands_around_it_changes_nothing(text: str, dress: str) -> None:
    """The same devices come out of a text, however it was pasted."""
    assert list_devices(nvidia_smi.parse(DRESSES[dress](text))) == list_devices(nvidia_smi.parse(text))


@pytest.mark.parametrize("width", [60, 72, 80])
def test_a_wrapped_table(width: int) -> None:
    """Rows broken inside words by the terminal are joined."""
    assert list_devices(nvidia_smi.parse(wrap_lines(TABLE, width))) == list_devices(nvidia_smi.parse(TABLE))


def test_a_row_cut_short_says_what_it_said_before_the_cut() -> None:
    """A device counts once its first row is whole; of its second row the closed cells count."""
    cut = TABLE[: TABLE.index("|     ", TABLE.index("7MiB")) + 12]

    document = nvidia_smi.parse(cut)

    assert document.truncated
    assert [(d.index, d.memory_used_mib, d.utilization_percent) for d in document.devices] == [(0, 0, 0), (1, 7, None)]


def test_columns_go_by_the_words_above_them() -> None:
    """With two columns exchanged, heading included, every value keeps its name."""
    exchanged = re.sub(r"(?m)^\|([^|]*)\|([^|]*)\|([^|]*)\|$", r"|\1|\3|\2|", TABLE)

    assert exchanged != TABLE
    assert nvidia_smi.parse(exchanged).devices == nvidia_smi.parse(TABLE).devices


def test_a_second_table_is_not_more_devices() -> None:
    """`nvidia-smi -l` prints the table again and again: the machine has not grown."""
    assert len(nvidia_smi.parse(TABLE * 3).devices) == 8


@pytest.mark.parametrize("name", ["billion_laughs", "external_entity"])
def test_xml_that_declares_entities_is_refused(name: str) -> None:
    """Entities are not expanded, no file is read, no device is reported, and the document carries the error."""
    began = time.process_time()
    document = nvidia_smi.parse((DATA / "xml" / f"{name}.xml").read_text(encoding="utf-8"))

    assert time.process_time() - began < 60  # a billion laughs take hours
    assert (document.kind, document.devices) == ("unknown", ())
    assert document.detail["reason"].startswith("rejected: the XML declares entities")


def test_the_doctype_that_the_tool_writes_is_welcome() -> None:
    """The DOCTYPE that nvidia-smi itself writes is accepted; its DTD is not fetched."""
    assert "<!DOCTYPE nvidia_smi_log SYSTEM" in XML
    assert len(nvidia_smi.parse(XML).devices) == 2


@pytest.mark.parametrize("share", [0.2, 0.5, 0.8, 0.99])
def test_cut_xml_gives_whole_devices_only(share: float) -> None:
    """Truncated XML gives only the devices whose gpu element is complete."""
    cut = XML[: int(len(XML.rstrip()) * share)]

    document = nvidia_smi.parse(cut)

    assert document.truncated
    assert len(document.devices) == cut.count("</gpu>")


def test_xml_in_one_line() -> None:
    """Minified XML, longer than the line limit of other formats, is parsed."""
    one_line = re.sub(r"\n\s*", "", XML.replace("<gpu id", "<!-- " + "x" * 20_000 + " --><gpu id"))

    assert list_devices(nvidia_smi.parse(one_line)) == list_devices(nvidia_smi.parse(XML))


def test_zero_is_an_answer_and_not_available_is_none() -> None:
    """0 % stays 0; [N/A] and its like become None."""
    head = "index, utilization.gpu [%], memory.used [MiB], power.draw [W], fan.speed [%]"

    (device,) = nvidia_smi.parse(f"{head}\n0, 0 %, 0 MiB, [N/A], [Unknown Error]\n").devices

    assert (device.utilization_percent, device.memory_used_mib) == (0, 0)
    assert (device.power_w, device.fan_percent) == (None, None)


def test_units_in_a_head_are_no_colour() -> None:
    """'[ms]' looks like an escape sequence without ESC; the field keeps its name."""
    document = nvidia_smi.parse("index, name, power_smoothing.window_multiplier [ms]\n0, NVIDIA B200, 5\n")

    assert document.detail["fields"] == ("index", "name", "power_smoothing.window_multiplier [ms]")


def test_every_phrase_says_what_to_do() -> None:
    """Each complaint has a category of the contract, a meaning and a next step."""
    assert {phrase.category for phrase in error_phrases.PHRASES} == CATEGORIES
    assert [p.category for p in error_phrases.PHRASES if len(p.meaning) < 40 or len(p.fix) < 40] == []


@pytest.mark.parametrize(
    ("text", "category"),
    [
        ("zsh: command not found: nvidia-smi", "tool-not-found"),
        ('exec: "nvidia-smi": executable file not found in $PATH: unknown', "tool-not-found"),
        ("Failed to initialize NVML: Driver Not Loaded", "driver-not-loaded"),
        ("Failed to initialize NVML: Insufficient Permissions", "permission-denied"),
        ("Failed to initialize NVML: Unknown Error", "container-lost-devices"),
        ("Failed to initialize NVML: Uninitialized", "device-not-initialised"),
        ("Unable to determine the device handle for GPU 0000:01:00.0: GPU requires reset", "device-lost"),
        ("No devices were found", "no-device"),
        ('Field "gpu.mood" is not a valid field to query.', "bad-query"),
        ("nvidia-smi: error while loading shared libraries: libnvidia-ml.so.1: cannot open", "library-not-found"),
    ],
)
def test_complaints(text: str, category: str) -> None:
    """Error messages are recognized and quoted."""
    error = nvidia_smi.parse(f"$ nvidia-smi\n{text}\n").error

    assert error is not None
    assert error.category == category
    assert text.startswith(error.message) or error.message.startswith(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        "hello",
        "Permission denied (publickey).",
        "bash: foo: command not found",
        "a, b, c\n1, 2, 3\n",
        "+---+\n| 1 |\n+---+",
    ],
)
def test_what_is_not_ours_is_unknown(text: str) -> None:
    """Output of other programs gives no data, no error and no device."""
    assert nvidia_smi.parse(text) == Document("nvidia-smi", "unknown")


@pytest.mark.parametrize("kind", [kind for kind, _, _ in output_kinds.KINDS])
def test_every_kind_has_a_text(kind: str) -> None:
    """Every kind in the parser table has a recording."""
    assert all((DATA / one.strip().replace("-", "_")).is_dir() for one in kind.split(","))


@pytest.mark.parametrize("doubled", ("GPU  Name  GPU  Name", "Fan  Fan  Temp", "Bus-Id  Bus-Id  Disp.A"))
def test_head_that_names_a_column_twice(doubled: str) -> None:
    """A garbled heading is parsed as far as possible, without an exception."""
    assert isinstance(table_cells.read_cell(doubled, "0  Tesla T4  0"), dict)


def test_digits_that_are_no_number() -> None:
    """A MIG row with non-ASCII digits (²) is skipped."""
    assert process_rows.parse_mig_row(["0 0 0 \u00b2", "11MiB / 40448MiB"]) == []
    assert len(process_rows.parse_mig_row(["0 2 0 0", "11MiB / 40448MiB"])) == 1
