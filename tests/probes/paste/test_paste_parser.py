"""Several outputs in one text: each is read by its own tool, and devices count once."""

from __future__ import annotations

import dataclasses
import importlib
import itertools
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envcheck.cli.commands.parse import PARSERS
from envcheck.core.model import Document
from probes.paste.paste_parser import NOTHING, WHOLE_LIMIT, ToolParser, load_parser, parse_paste

DATA = Path(__file__).parents[2] / "data"
TOOLS = {tool: load_parser(tool, importlib.import_module(module)) for tool, module in PARSERS.items()}
# Recordings whose first lines tell the tool and the form; the labels lie beside them.
BEGUN = (
    ("npu-smi", "npu_smi/info/950_own_cells.txt"),
    ("npu-smi", "npu_smi/info/310p_duo_no_hbm.txt"),
    ("npu-smi", "npu_smi/list/two_cards.txt"),
    ("ixsmi", "ixsmi/table/biv150_busy_430.txt"),
    ("ixsmi", "ixsmi/table/mrv100_wide_440.txt"),
    ("nvidia-smi", "nvidia_smi/table/a100x8_535.txt"),
    ("nvidia-smi", "nvidia_smi/xml/a100x2_v12.xml"),
    ("xpu-smi", "xpu_smi/table/old_k200_error_state.txt"),
    ("xpu-smi", "xpu_smi/list/p800_two.txt"),
)
LOG = "2026-11-26 12:00:00 - INFO - step 10, loss: 1.234, lr: 1e-5\n"


def read_recording(name: str) -> str:
    return (DATA / name).read_bytes().decode("utf-8", "replace")


def without_place(document: Document) -> Document:
    """The document without what the text around it decides."""
    return dataclasses.replace(document, command="", host="", truncated=False, remarks=())


@pytest.mark.parametrize(
    ("first", "second"), list(itertools.permutations(BEGUN, 2)), ids=lambda entry: Path(entry[1]).stem
)
def test_two_outputs_give_their_two_documents(first: tuple[str, str], second: tuple[str, str]) -> None:
    """A text that is two recordings gives what each gives alone, for every pair of tools."""
    texts = [read_recording(name) for _, name in (first, second)]
    alone = [parse_paste(text, TOOLS) for text in texts]

    joined = parse_paste("\n".join(texts), TOOLS)

    assert [document.tool for document in alone] == [first[0], second[0]]
    assert joined.kind == "session"
    assert list(map(without_place, joined.parts)) == list(map(without_place, alone))


TABLE = read_recording("nvidia_smi/table/a100x8_535.txt")
HEADLESS = """\
+-------------------------------+----------------------+----------------------+
| 4    Iluvatar BI-V100         | 00000000:1E:00.0     | 1500MHz   1200MHz    |
| 0%   32C   P0    55W / 250W   | 513MiB / 32768MiB    | 0%        Default    |
+-------------------------------+----------------------+----------------------+
"""
USAGES = "NPU ID  : 0\nChip Count  : 1\n\nHBM Capacity(MB)  : 32768\nHBM Usage Rate(%)  : 5\nChip ID  : 0\n"


@pytest.mark.parametrize(
    ("texts", "kinds"),
    [
        (
            (
                "ERROR: Option noheader is not recognized. Please run 'nvidia-smi -h' for help.\n",
                "Failed to initialize NVML: Driver/library version mismatch\n",
            ),
            ["error", "error"],
        ),
        ((USAGES, "NPU ID  : 0\nHealth  : OK\nError Code  : NA\n"), ["usages", "health"]),
        ((USAGES, USAGES.replace(": 0\nChip Count", ": 1\nChip Count")), ["usages"]),
        (("Total Count : 1\n\nNPU ID : 0\nChip Count : 1\n", "vnpu-mode : docker\n"), ["list", "vnpu-mode"]),
        (("Health Status : OK\nError Code : NA\n", "Fault Event Count : 0\n"), ["health", "fault-event"]),
        (("link status: DOWN\n", "net health status: Success\n"), ["hccn", "hccn"]),
        (
            ("There is no NPU card on this server.\n", "Get ipconf failed, because no ip was preset there!\n"),
            ["error", "error"],
        ),
        (
            ("DrvMngGetConsoleLogLevel failed. (g_conLogLevel=3)\n", "dcmi module initialize failed. ret is -8005\n"),
            ["error"],
        ),
        (("0, NVIDIA GB10, 1 MiB\n", "0, 297.37, [N/A], 638\n1, 289.76, [N/A], 638\n"), ["csv", "csv"]),
        ((TABLE, HEADLESS), ["table", "table"]),
        ((TABLE, "37C 74W 0MiB 32768MiB 0%\n40C 114W 28653MiB 32768MiB 94%\n"), ["table", "log"]),
        ((TABLE, "0, 297.37, [N/A]\n1, 289.76, [N/A]\n"), ["table", "csv"]),
        ((TABLE, "Driver Version      : 5.0.21.16\nXPU-RT Version      : 10.2\n"), ["table", "query-text"]),
    ],
    ids=[
        *("messages", "answers", "one answer for two devices", "behind a list", "keys", "ports", "errors", "one error"),
        *("widths", "names", "readings", "rows without a head", "first lines of -q"),
    ],
)
def test_outputs_without_a_head_stay_apart(texts: tuple[str, str], kinds: list[str]) -> None:
    """Messages, answers about a device and rows without a head begin outputs where they are below another one."""
    joined = parse_paste("".join(texts), TOOLS)

    assert [part.kind for part in joined.parts or (joined,)] == kinds


@pytest.mark.parametrize(("tool", "name"), BEGUN, ids=[Path(name).stem for _, name in BEGUN])
def test_the_same_output_twice_has_its_devices_once(tool: str, name: str) -> None:
    """A watch log has the devices of the machine, as it saw them last."""
    text = read_recording(name)
    alone = parse_paste(text, TOOLS)

    assert parse_paste(text + "\n" + text, TOOLS).devices == alone.devices
    assert parse_paste(text + "\n" + LOG * 40 + text, TOOLS).devices == alone.devices


@settings(deadline=None, max_examples=40)
@given(st.lists(st.sampled_from([entry for entry in BEGUN if "/list/" not in entry[1]]), min_size=2, max_size=5))
def test_devices_are_those_of_the_last_listings(entries: list[tuple[str, str]]) -> None:
    """However many listings: of each tool, the devices of its last one."""
    text = "\n".join(read_recording(name) for _, name in entries)
    alone = [parse_paste(read_recording(name), TOOLS) for _, name in entries]
    last = {document.tool: document.devices for document in alone if document.devices}

    found = parse_paste(text, TOOLS)

    assert sorted(map(repr, found.devices)) == sorted(repr(device) for devices in last.values() for device in devices)


def test_one_tool_of_two() -> None:
    """With TOOL only its output is read; without, each device belongs to its own vendor."""
    text = read_recording("nvidia_smi/table/a100x8_535.txt") + read_recording("ixsmi/table/biv150_busy_430.txt")

    both, own = parse_paste(text, TOOLS), parse_paste(text, TOOLS, "ixsmi")

    assert {part.tool for part in both.parts} == {"nvidia-smi", "ixsmi"}
    assert own.tool == "ixsmi"
    assert own.devices == both.parts[1].devices
    assert not [device for part in both.parts[:1] for device in part.devices if "Iluvatar" in (device.name or "")]


def test_hosts_stay_apart() -> None:
    """Lines of several hosts, interleaved as pdsh prints them, and titles as Ansible and clush print them."""
    text = read_recording("npu_smi/info/310p_duo_no_hbm.txt")
    alone = parse_paste(text, TOOLS)
    mixed = "".join(f"{host}: {line}\n" for line in text.splitlines() for host in ("node1", "node2"))
    titled = "".join(f"{host} | CHANGED | rc=0 >>\n{text}\n" for host in ("node1", "node2"))

    dashes = "-" * 15
    gathered = "".join(f"{dashes}\n{host}\n{dashes}\n{text}\n" for host in ("node1", "node2"))

    for pasted in (mixed, titled, gathered):
        found = parse_paste(pasted, TOOLS)

        assert [part.host for part in found.parts] == ["node1", "node2"]
        assert [part.devices for part in found.parts] == [alone.devices, alone.devices]
        assert len(found.devices) == 2 * len(alone.devices)


def test_commands_and_hosts_of_prompts() -> None:
    """A prompt gives the command and the host of its output."""
    listing = read_recording("npu_smi/info/310p_duo_no_hbm.txt")
    health = "\tNPU ID                         : 3\n\tHealth Status                  : OK\n"
    text = f"[root@node7 ~]# npu-smi info\n{listing}\n[root@node7 ~]# npu-smi info -t health -i 3\n{health}"

    found = parse_paste(text, TOOLS)

    assert [(part.command, part.host) for part in found.parts] == [
        ("npu-smi info", "node7"),
        ("npu-smi info -t health -i 3", "node7"),
    ]


DECORATIONS: dict[str, Callable[[str], str]] = {
    "crlf": lambda text: text.replace("\n", "\r\n"),
    "host": lambda text: "".join(f"node1: {line}\n" for line in text.splitlines()),
    "mpirun": lambda text: "".join(f"[1,0]<stdout>:{line}\n" for line in text.splitlines()),
    "quoted": lambda text: "".join(f"> {line}\n" for line in text.splitlines()),
    "markdown": lambda text: "```\n" + "".join(f"{line}<br>\n" for line in text.splitlines()) + "```\n",
    "two blanks": lambda text: "".join(f"{line}  \n" for line in text.splitlines()),
    "backslash": lambda text: "".join(f"{line}\\\n" for line in text.splitlines()),
    "numbered": lambda text: "".join(f"{at:5}\t{line}\n" for at, line in enumerate(text.splitlines(), 1)),
    "colour": lambda text: "".join(f"\x1b[32m{line}\x1b[0m\n" for line in text.splitlines()),
    "nbsp": lambda text: text.replace("  ", "&nbsp; "),
    "wrapped": lambda text: "".join(
        f"{line[at : at + 80]}\n" for line in text.splitlines() for at in range(0, max(1, len(line)), 80)
    ),
    "comment": lambda text: "".join(f"    # {line}\n" if "|" in text else f"{line}\n" for line in text.splitlines()),
    "compose": lambda text: "".join(f"web_1  | {line}\n" for line in text.splitlines()),
    "ranks": lambda text: "".join(f"[rank0]: {line}\n" for line in text.splitlines()),
    "level": lambda text: "".join(f"INFO: {line}\n" for line in text.splitlines()),
    "root logger": lambda text: "".join(f"INFO:root:{line}\n" for line in text.splitlines()),
    "logger": lambda text: "".join(
        f"2026-11-29 10:00:{at % 60:02},123 - root - INFO - {line}\n" for at, line in enumerate(text.splitlines())
    ),
    "journal": lambda text: "".join(
        f"Nov {at % 30:2} 10:00:00 host unit[123]: {line}\n" for at, line in enumerate(text.splitlines(), 1)
    ),
    "container log": lambda text: "".join(
        f"2026-11-29T10:00:00.{at:09}Z stdout F {line}\n" for at, line in enumerate(text.splitlines())
    ),
    "kernel log": lambda text: "".join(
        f"I1129 10:00:00.{at:06}       1 main.go:12] {line}\n" for at, line in enumerate(text.splitlines())
    ),
    "answered": lambda text: "".join(f"> > {line}\n" for line in text.splitlines()),
    "stamped": lambda text: "".join(f"2026-11-27T10:00:00.123Z {line}\n" for line in text.splitlines()),
    "pod": lambda text: "".join(f"[pod/train-0/main] {line}\n" for line in text.splitlines()),
    "lost colours": lambda text: "".join(f"^[[32m{line}^[[0m\n" for line in text.splitlines()),
    "full width": lambda text: text.replace("|", "｜").replace("-", "─"),
    "diff": lambda text: "".join(f"+{line}\n" for line in text.splitlines()),
    "source": lambda text: "".join(f'    "{line}\\n"\n' for line in text.splitlines()),
}


@pytest.mark.parametrize("decoration", DECORATIONS)
@pytest.mark.parametrize(("tool", "name"), BEGUN, ids=[Path(name).stem for _, name in BEGUN])
def test_decorations_change_nothing(tool: str, name: str, decoration: str) -> None:
    """What logs, scripts and web pages put around lines is no content."""
    text = read_recording(name)

    found = parse_paste(DECORATIONS[decoration](text), TOOLS)

    assert (found.tool, found.devices) == (tool, parse_paste(text, TOOLS).devices)


CORPORA = [Path(__file__).parents[4] / "shared" / name for name in ("corpus", "corpus-kunlunxin")]
RECORDINGS = sorted(
    file
    for root in (DATA, *CORPORA)
    for file in root.glob("*smi/*/*" if root == DATA else "*/*")
    if file.suffix in (".txt", ".xml", ".csv")
)
PREFIXES = ("ranks", "level", "journal", "container log", "kernel log", "answered", "stamped", "pod", "compose")


@pytest.mark.parametrize("prefix", PREFIXES)
def test_prefixed_recordings_are_read_like_the_plain_ones(prefix: str) -> None:
    """Every recording, of one line or of thousands, gives the same document with a prefix before each line."""
    differing = []
    for file in RECORDINGS:
        text = file.read_bytes().decode("utf-8", "replace").replace("\r\n", "\n")
        plain = parse_paste(text, TOOLS)
        found = parse_paste(DECORATIONS[prefix](text.removesuffix("\n")), TOOLS)
        if without_place(found) != without_place(plain):
            differing.append(file.name)

    assert differing == []


def test_a_prefixed_table_among_plain_outputs() -> None:
    """A prefix that only one of several outputs has is no content either."""
    tables = [read_recording(name) for _, name in BEGUN if "/table/" in name]
    alone = [parse_paste(text, TOOLS).devices for text in tables]

    for at, text in enumerate(tables):
        pasted = "\n".join([*tables[:at], DECORATIONS["ranks"](text), *tables[at + 1 :]])

        assert [part.devices for part in parse_paste(pasted, TOOLS).parts] == alone


@pytest.mark.parametrize(
    "text",
    [
        "ERROR: Option noheader is not recognized. Please run 'nvidia-smi -h' for help.\n",
        "[ERROR][XPURT] Initialize default context for dev -1 fail\n",
        "bash: npu-smi: command not found\n",
    ],
)
def test_a_message_keeps_its_first_words(text: str) -> None:
    """In a single line, a level or a program's name is the message, also behind a time."""
    alone = parse_paste(text, TOOLS)

    assert alone.error and alone.error.message == text.strip()
    assert parse_paste(f"2026-11-29T10:00:00.5Z stdout F {text}", TOOLS) == alone


def test_a_table_behind_a_long_log() -> None:
    """However much text is before and behind an output, it is found."""
    text = read_recording("nvidia_smi/table/a100x8_535.txt")
    log = LOG * (2 * WHOLE_LIMIT // len(LOG))

    assert parse_paste(log + text + log, TOOLS).devices == parse_paste(text, TOOLS).devices


@settings(deadline=None)
@given(st.text(max_size=300), st.sampled_from([None, *TOOLS]))
def test_any_text_is_answered(text: str, tool: str | None) -> None:
    """No text raises."""
    assert parse_paste(text, TOOLS, tool).kind in NOTHING or text.strip()


def test_four_commands_of_an_h200() -> None:
    """A real record: each output by itself, and the device of the listing that is whole."""
    found = parse_paste(read_recording("pasted/h200_four_commands.txt"), TOOLS)

    assert [part.kind for part in found.parts] == ["table", "topo", "list", "query-text"]
    assert [(each.index, each.name, each.memory_total_mib) for each in found.devices] == [(0, "NVIDIA H200", 143771)]
    assert not found.truncated


def test_profiles_are_no_devices() -> None:
    assert parse_paste(read_recording("pasted/h200_mig_profiles.txt"), TOOLS).devices == ()


def test_a_failing_card_is_not_hidden_by_its_healthy_past() -> None:
    """The last sample counts, also where the card has lost its memory or its name in it."""
    healthy = read_recording("nvidia_smi/table/a100x8_535.txt")
    (row,) = [line for line in healthy.splitlines() if "MiB" in line][:1]
    failing = healthy.replace(
        row, re.sub(r"\d+MiB /\s+\d+MiB", lambda found: "ERR! / ERR!".center(len(found[0])), row), 1
    )

    found = parse_paste(healthy + failing, TOOLS)

    assert [device.memory_total_mib is None for device in found.devices] == [True] + 7 * [False]
    assert {remark.line for remark in found.remarks} == {
        len(healthy.splitlines()) + failing.splitlines().index(next(x for x in failing.splitlines() if "ERR!" in x)) + 1
    }


def test_listings_of_chosen_devices_count_together() -> None:
    """`-i 0` and `-i 1` list other devices; a listing of all of them counts alone."""
    lines = read_recording("nvidia_smi/table/a100x8_535.txt").splitlines()
    at = [number for number, line in enumerate(lines) if "A100" in line]
    single = ["\n".join([*lines[: at[0]], *lines[start : at[1] - at[0] + start], "+----------+"]) for start in at[:2]]
    chosen = "".join(f"$ nvidia-smi -i {number}\n{text}\n" for number, text in enumerate(single))

    two = parse_paste(chosen, TOOLS)
    all_of_them = parse_paste(chosen + "$ nvidia-smi\n" + "\n".join(lines), TOOLS)

    assert [device.index for device in two.devices] == [0, 1]
    assert len(all_of_them.devices) == 8


def test_another_program_of_the_same_name_is_no_output() -> None:
    """Intel's table has the form of nvidia-smi's, and no tool of ours printed it."""
    found = parse_paste(read_recording("xpu_smi/unknown/intel_table.txt"), TOOLS)

    assert (found.kind, found.devices) == ("unknown", ())
    assert "Intel" in found.detail["reason"]


@pytest.mark.parametrize("text", [" " * 1_000_000, " " * 1_000_000 + "x", ("\t" * 1000 + "\n") * 1000])
def test_blanks_are_no_work(text: str) -> None:
    """A pattern that tries each of a million blanks twice would never end."""
    assert parse_paste(text, TOOLS).kind == "unknown"


def test_the_end_of_a_table_keeps_its_devices() -> None:
    """Rows whose head is cut off belong to the process table that ends their table."""
    text = """a line
+===========================+===============+====================================================+
| 3     Ascend910           | OK            | 171.0       41                0    / 0             |
| 0     6                   | 0000:81:00.0  | 0           0    / 0          1200 / 65536         |
+===========================+===============+====================================================+
+---------------------------+---------------+----------------------------------------------------+
| NPU     Chip              | Process id    | Process name             | Process memory(MB)      |
+===========================+===============+====================================================+
| 3       0                 | 4711          | python                   | 1100                    |
+===========================+===============+====================================================+
"""

    found = parse_paste(text, TOOLS)

    assert [(device.npu, device.memory_used_mib) for device in found.devices] == [(3, 1200)]
    assert [process.pid for process in found.processes] == [4711]


@pytest.mark.parametrize(
    "message",
    [
        "'nvidia-smi' não é reconhecido como um comando interno",
        "'nvidia-smi' n\ufffdo \ufffd reconhecido como um comando interno",
        '"nvidia-smi" no se reconoce como un comando interno',
        "'nvidia-smi' n'est pas reconnu en tant que commande interne",
    ],
)
def test_a_missing_tool_in_other_languages(message: str) -> None:
    """Windows says in its own language that there is no such program."""
    found = parse_paste(message + "\n", TOOLS)

    assert found.error and found.error.category == "tool-not-found"


def test_commands_without_an_output_are_listed() -> None:
    """A command that printed nothing, or something else, is in the listing of commands, and no part."""
    table = read_recording("nvidia_smi/table/a100x8_535.txt").rstrip("\n")
    others = "$ nvidia-smi -pm 1\n\n$ nvidia-smi --help\nusage: see the manual\n"
    text = f"$ nvidia-smi\n{table}\n{others}$ nvidia-smi\n{table}\n"

    found = parse_paste(text, TOOLS)

    assert [part.kind for part in found.parts] == ["table", "table"]
    assert [(each["command"], each["kind"]) for each in found.detail["parts"]] == [
        ("nvidia-smi", "table"),
        ("nvidia-smi -pm 1", "empty"),
        ("nvidia-smi --help", "unknown"),
        ("nvidia-smi", "table"),
    ]


@pytest.mark.parametrize("name", ["npu_smi/session/three_commands.txt", "npu_smi/common/two_chips_and_mcu.txt"])
def test_each_output_is_read_once(name: str) -> None:
    """The parsers get no more text than there is."""
    given: list[int] = []

    def count_characters(tool: ToolParser) -> ToolParser:
        return dataclasses.replace(tool, parse=lambda text: given.append(len(text)) or tool.parse(text))

    recording = read_recording(name)
    text = "".join(recording.replace("-i 3", f"-i {number}") + f"temperature of {number}\n" for number in range(9))
    found = parse_paste(text, {each: count_characters(tool) for each, tool in TOOLS.items()})

    assert len(found.parts) > 8
    assert sum(given) <= len(text) + len(found.parts)


def test_the_listing_has_each_command() -> None:
    """Answers that are one part, as a port's of two commands are, have an entry each; `lspci` is a command, too."""
    address = "ipaddr:192.168.100.10{at}\nnetmask:255.255.255.0\n"
    ports = "".join(f"[root@a ~]# hccn_tool -i {at} -ip -g\n" + address.format(at=at) for at in range(2))
    accelerator = "3d:00.0 Processing accelerators: Huawei Technologies Co., Ltd. Device d802 (rev 20)\n"

    found = parse_paste(f"{ports}[root@a ~]# lspci | grep acce\n{accelerator}", TOOLS)

    assert [(each["command"], each["kind"]) for each in found.detail["parts"]] == [
        ("hccn_tool -i 0 -ip -g", "hccn"),
        ("hccn_tool -i 1 -ip -g", "hccn"),
        ("lspci | grep acce", "lspci"),
    ]
    assert [part.kind for part in found.parts] == ["hccn", "lspci"]
