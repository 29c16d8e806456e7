"""Answers of several ports: each block carries its device, or null; a summary is the worst value."""

from __future__ import annotations

from typing import Any

import pytest

from envcheck.cli.commands.parse import load_parsers
from probes.ascend import npu_smi
from probes.paste.paste_parser import parse_paste


def parse_detail(text: str) -> Any:
    document = npu_smi.parse(text)

    assert document.kind == "hccn"
    return document.detail


def test_two_commands() -> None:
    text = "$ hccn_tool -i 0 -link -g\nlink status: UP\n$ hccn_tool -i 1 -link -g\nlink status: DOWN\n"

    for document in (npu_smi.parse(text), parse_paste(text, load_parsers())):
        assert document.detail["answers"] == [{"npu": 0, "link status": "UP"}, {"npu": 1, "link status": "DOWN"}]
        assert (document.detail["fields"], document.detail["npu"]) == ({"link status": "DOWN"}, None)


def test_two_options_of_each_device() -> None:
    text = "[devid 0]net health status: Success\n[devid 1]net health status: Init fail\n"
    text += "[devid 0] link status: UP\n[devid 1] link status: DOWN\n"

    assert parse_detail(text)["answers"] == [
        {"npu": 0, "net health status": "Success", "link status": "UP"},
        {"npu": 1, "net health status": "Init fail", "link status": "DOWN"},
    ]


@pytest.mark.parametrize(
    ("loop", "npus"),
    [
        ("{2..3}", [2, 3]),
        ("0 7", [0, 7]),
        ("$(seq 4 5)", [4, 5]),
        ("{0..7}", [None, None]),  # eight ports, two answers: which ones is unknown
        ("$PORTS", [None, None]),
    ],
)
def test_a_loop_over_ports(loop: str, npus: list[int | None]) -> None:
    text = f"$ for i in {loop}; do hccn_tool -i $i -link -g; done\nlink status: UP\nlink status: DOWN\n"

    assert [answer["npu"] for answer in parse_detail(text)["answers"]] == npus


@pytest.mark.parametrize("title", ["dev_id:{}", "NPU {}", "=== device {} ===", "npu_id={}:"])
def test_titles_of_devices(title: str) -> None:
    text = f"{title.format(2)}\nlink status: UP\n{title.format(5)}\nlink status: DOWN\n"

    assert parse_detail(text)["answers"] == [{"npu": 2, "link status": "UP"}, {"npu": 5, "link status": "DOWN"}]


def test_device_in_the_line() -> None:
    line = "dev_id:{}, tls switch[{}](0:disable, 1:enable), tls preconfigured[1](0:non-preset, 1:preset)\n"

    answers = parse_detail(line.format(3, 1) + line.format(4, 0))["answers"]

    assert [(answer["npu"], answer["tls switch"]) for answer in answers] == [(3, 1), (4, 0)]


def test_lines_behind_an_answer_of_another_device() -> None:
    """A line without a device below a complete answer is not of the answer's device."""
    answers = parse_detail("[devid 3]link status: UP\nlink status: DOWN\n")["answers"]

    assert [answer["npu"] for answer in answers] == [3, None]


def test_events_and_routes_carry_their_device() -> None:
    record = "[devid {0}]link change records :\n[devid {0}]    Tue Aug  1 14:43:40 2022    LINK {1}\n"

    events = parse_detail(record.format(0, "UP") + record.format(6, "DOWN"))["events"]

    assert [(event["npu"], event["state"]) for event in events] == [(0, "UP"), (6, "DOWN")]


def test_a_port_without_a_value_stays() -> None:
    text = "$ hccn_tool -i 0 -link -g\nlink status: UP\n$ hccn_tool -i 1 -link -g\nno answer\n"

    assert parse_detail(text)["answers"] == [{"npu": 0, "link status": "UP"}, {"npu": 1}]


@pytest.mark.parametrize(
    ("words", "worst"), [(("UP", "UNKNOWN", "down"), "down"), (("UP", "***"), "***"), (("DOWN", "UP"), "DOWN")]
)
def test_the_worst_link(words: tuple[str, ...], worst: str) -> None:
    text = "".join(f"link status: {word}\n" for word in words)

    assert parse_detail(text)["fields"] == {"link status": worst}
