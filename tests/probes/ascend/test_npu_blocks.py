"""Answers about several devices: each block carries its device, and the summary is the worst of them."""

from __future__ import annotations

from probes.ascend import npu_smi

HEALTH = """\
	NPU ID                         : 1
	Health Status                  : OK
	Error Code                     : NA
	Error Information              : NA

	NPU ID                         : 7
	Health Status                  : Alarm
	Error Code                     : 80E01801
	Error Information              : the card is too hot
"""
COMMON = """\
	NPU ID                         : {npu}
	Chip Count                     : 1

	Memory Usage Rate(%)           : 3
	Aicore Usage Rate(%)           : 0
	Temperature(C)                 : {temperature}
	Chip ID                        : 0
"""


def test_the_worst_health() -> None:
    detail = npu_smi.parse(HEALTH).detail

    assert (detail["health"], detail["error_codes"]) == ("Alarm", ["80E01801"])
    assert detail["error_information"] == ["the card is too hot"]
    assert [block["npu"] for block in detail["blocks"]] == [1, 7]


def test_an_unknown_word_is_worse_than_ok() -> None:
    """A word that nobody listed is no reason to say OK, and none to hide an alarm."""
    assert npu_smi.parse(HEALTH.replace("Alarm", "Strange")).detail["health"] == "Strange"
    assert npu_smi.parse(HEALTH.replace(": OK", ": Strange")).detail["health"] == "Alarm"


def test_two_answers_stay_apart() -> None:
    text = COMMON.format(npu=1, temperature=40) + COMMON.format(npu=7, temperature=61)

    blocks = npu_smi.parse(text).detail["blocks"]

    assert [(block["npu"], block["fields"]["Temperature(C)"]) for block in blocks] == [(1, 40), (7, 61)]


def test_a_port_that_is_down() -> None:
    detail = npu_smi.parse("[devid 0]link status: UP\n[devid 1]link status: DOWN\n").detail

    assert detail["fields"]["link status"] == "DOWN"
    assert [answer["npu"] for answer in detail["answers"]] == [0, 1]
