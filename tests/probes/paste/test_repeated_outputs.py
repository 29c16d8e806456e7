"""An output below one of the same form is another one where the text shows it: by a gap, a head, an end or a number."""

from __future__ import annotations

import pytest

from envcheck.core.model import Document
from probes.paste.paste_parser import make_splitter, parse_paste
from tests.probes.paste.test_paste_parser import TOOLS

SPLITTER = make_splitter(TOOLS)
LOG = "26C 50W 513MiB 32768MiB 0%\n27C 51W 600MiB 32768MiB 45%\n"
MONITOR = "# gpu    pwr  gtemp\n# Idx      W      C\n    0     43     35\n    1     44     36\n"
TIMED = "#Time        gpu    pwr\n#HH:MM:SS    Idx      W\n 10:11:12      0     43\n 10:11:13      0     44\n"
RESET = "GPU 00000000:07:00.0 was successfully reset.\nAll done.\n"
BOARD = "NPU ID : 0\nChip ID : 0\nChip Type : Ascend\nBoard ID : 0x02\nPCB ID : NA\nBOM ID : 1\n"
HEALTH = "Health Status : Alarm\nError Code : 80E01801\n"
REMAP = "Chip Physical ID :0\nChip Logic ID :0\nNPU ID :0\nChip ID :0\n"
VERSION = "Version=25.2.0\nascendhal_version=7.35.23\npackage_version=25.2.0\n"
CLOCKS = "1450 1450 1450 1450 1450 1450"
MACHINE = f"""\
00000000:03:00.0 0 0 02K15K 36 0 0 0 86 {CLOCKS} 2 96 90440 98304 0 1.0 "P800 OAM" 0 0 0 0 0 0 0 0 0 0
00000000:05:00.0 1 1 02K15L 36 0 0 0 86 {CLOCKS} 2 96 90440 98304 0 1.0 "P800 OAM" 0 0 0 0 0 0 0 0 0 0
"""
OPTION = "ERROR: Option noheader is not recognized. Please run 'nvidia-smi -h' for help.\n"
RUNTIME = "[ERROR][XPURT][xpu_runtime_impl.cpp:120] Initialize default context for dev -1 fail\n"
LOADER = "ixsmi: error while loading shared libraries: libixml.so: cannot open shared object file: No such file\n"


def parse(text: str) -> Document:
    return parse_paste(text, TOOLS, splitter=SPLITTER)


def list_kinds(text: str) -> list[str]:
    document = parse(text)
    return [each.kind for each in document.parts or (document,)]


def make_common(npu: int) -> str:
    return f"NPU ID : {npu}\nChip Count : 1\n\nChip ID : 0\nAicore Count : 24\nTemperature(C) : 46\n"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (LOG, LOG.replace("513", "514")),
        (MONITOR, TIMED),
        (MONITOR, MONITOR.replace("43", "45")),
        (RESET, RESET.replace("07", "08")),
        (BOARD, BOARD),
        (HEALTH, HEALTH),
        (HEALTH, BOARD),
        (HEALTH, make_common(0)),
        (REMAP, BOARD),
        (VERSION, VERSION.replace("25.2.0", "25.3.0")),
        (MACHINE, MACHINE),
        (f"$ npu-smi info -t common -i 1\n{make_common(1)}", make_common(0)),
    ],
)
def test_an_output_below_one_of_its_form(first: str, second: str) -> None:
    expected = [*list_kinds(first), *list_kinds(second)]

    assert list_kinds(f"{first}\n{second}") == expected


def test_a_log_twice_has_the_devices_of_the_last_one() -> None:
    found = parse(LOG + "\n" + LOG.replace("513", "514"))

    assert [each.memory_used_mib for each in found.devices] == [514, 600]


@pytest.mark.parametrize("output", [LOG, MONITOR, MACHINE, HEALTH])
def test_a_blank_line_behind_each_one_divides_nothing(output: str) -> None:
    spaced = parse(output.replace("\n", "\n\n"))

    assert (spaced.kind, spaced.devices, spaced.detail) == (
        parse(output).kind,
        parse(output).devices,
        parse(output).detail,
    )


def test_a_monitor_repeats_its_head() -> None:
    rows = "    0     44     36\n    1     44     36\n"

    assert list_kinds(MONITOR + MONITOR[: MONITOR.index("    0")] + rows) == ["dmon"]


@pytest.mark.parametrize("message", [OPTION, RUNTIME, LOADER])
@pytest.mark.parametrize("gap", ["", "\n"])
def test_a_message_twice_has_no_prefix(message: str, gap: str) -> None:
    """Lines that are equal show no prefix: it is the message's own beginning."""
    found = parse(message + gap + message)

    assert (found.kind, found.error) == ("error", parse(message).error)
    assert found.error and found.error.message == message.strip()


def test_commands_about_another_port_and_question_are_not_joined() -> None:
    def ask(port: int, *options: tuple[str, str]) -> str:
        return "".join(f"$ hccn_tool -i {port} -{option} -g\n{answer}\n" for option, answer in options)

    link, address = ("link", "link status: UP"), ("ip", "ipaddr:10.1.0.2\nnetmask:255.255.0.0")
    health = ("net_health", "net health status: Success")

    assert len(list_kinds(ask(3, address, link))) == 1
    assert len(list_kinds(ask(0, link) + ask(1, link))) == 1
    assert len(list_kinds(ask(3, address, link) + ask(2, health))) == 2
    assert len(list_kinds(ask(3, link) + ask(3, link))) == 2


def test_an_answer_of_several_devices_is_of_none() -> None:
    """Each block has its device; the whole answer has one only where it is that of all."""
    found = parse(make_common(1) + "\n" + make_common(7))

    assert (found.kind, found.detail["npu"]) == ("common", None)
    assert [block["npu"] for block in found.detail["blocks"]] == [1, 7]
    assert parse(make_common(7)).detail["npu"] == 7


@pytest.mark.parametrize("table", ["\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNV4\t0-3\nGPU1\tNV4\t X \t0-3\n", VERSION])
def test_a_program_below_an_output_is_no_part_of_it(table: str) -> None:
    assert parse(table + "\nSAMPLE = (\n    1,\n)\n").detail == parse(table).detail
