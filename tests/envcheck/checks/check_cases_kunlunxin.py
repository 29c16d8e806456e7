# ruff: noqa: E501  the table of cases is read across, one line a check
"""The cases of the checks for Kunlunxin's cards."""

from __future__ import annotations

from typing import Any

from envcheck.core.model import Outcome
from tests.envcheck.checks.check_parts import (
    FAIL,
    NO_ENV,
    NO_TOOL,
    UNKNOWN,
    WARN,
    Case,
    Change,
    N,
    apply_changes,
    change_answer,
    change_devices,
    change_document,
    change_environment,
    change_facts,
    change_first_device,
    change_vendor,
    make_topology,
)

PROBE_ERRORS = "read /proc/xpu/probe_error"
PAIRS = make_topology(lambda a, b: "XL" if a // 2 == b // 2 else "SYS")
NO_LINKS = make_topology(lambda a, b: "SYS")
PROPERTIES = "run xpu-smi -q -x"


def report_sbl(*found: str) -> Change:
    return change_answer(
        PROPERTIES, "".join(f"<firmware_version>\n<sbl>{sbl}</sbl>\n</firmware_version>\n" for sbl in found)
    )


ONE_WAY = make_topology(lambda a, b: "XL" if a // 2 == b // 2 and a < b else "SYS")


def visible(own: str | None, cuda: str | None = None) -> Change:
    return change_environment(XPU_VISIBLE_DEVICES=own, CUDA_VISIBLE_DEVICES=cuda)


RIGHT: dict[str, Change] = {
    "devices.linked_group": apply_changes(visible("0,1"), change_vendor(topology=PAIRS)),
    "devices.visible_agree": visible("0,1", "0,1"),
    "driver.probe_errors": change_answer(PROBE_ERRORS, outcome=Outcome.EMPTY),
    "driver.sbl": report_sbl(*["1.48"] * N),
    "toolkit.xre": change_document(runtime_version="5.0.21"),
    "network.bkcl_debug": change_environment(BKCL_DEBUG="1"),
    "network.bkcl_nics": change_environment(BKCL_RDMA_NICS=",".join(["eth0"] * N)),
}

# check -> (vendor, wrong and how bad, absent, unreadable), as in test_checks.py
CASES: dict[str, Case] = {
    "driver.probe_errors": ("xpu", change_answer(PROBE_ERRORS, "0000:3b:00.0 SN 02K00Y System error"), FAIL, change_answer(PROBE_ERRORS, outcome=Outcome.ABSENT), change_answer(PROBE_ERRORS, outcome=Outcome.FAILED)),
    "driver.sbl": ("xpu", report_sbl("1.39", "1.48", "1.54", "1.48"), WARN, change_devices(name="R300"), report_sbl("1.48")),
    "devices.card_series": ("xpu", change_first_device(name="R300"), WARN, NO_TOOL, change_devices(name=None)),
    "devices.visible_agree": ("xpu", visible("0,1", "2,3"), WARN, visible("0,1"), NO_ENV),
    "devices.linked_group": ("xpu", apply_changes(change_vendor(topology=PAIRS), visible("1,2")), FAIL, visible("0"), NO_ENV),
    "toolkit.xre": ("xpu", change_document(runtime_version=None, driver_version="515.58"), WARN, NO_TOOL, change_document(runtime_version=None)),
    "network.bkcl_debug": ("xpu", change_environment(BKCL_DEBUG="INFO"), FAIL, change_environment(BKCL_DEBUG=None), NO_ENV),
    "network.bkcl_nics": ("xpu", change_environment(BKCL_RDMA_NICS="eth1,eth1,eth2,eth2"), FAIL, change_environment(BKCL_RDMA_NICS=None), change_facts(network=None)),
}  # fmt: skip


# Further faults and their findings: check -> (vendor, change, status, message).
MORE: list[tuple[str, str, Change, Any, str]] = [
    ("driver.version", "xpu", change_document(driver_version="515.58"), UNKNOWN, "515.58, the version of an interface"),
    ("driver.version", "xpu", change_document(driver_version="5.0.21.16"), FAIL, "older than 5.0.21.21"),
    ("driver.sbl", "xpu", report_sbl("1.48", "1.39", "1.39", "1.48"), WARN, "devices 1, 2: SBL firmware 1.39 is older"),
    ("driver.sbl", "xpu", report_sbl("1.48", "1.48", "1.48", "new"), UNKNOWN, "does not report"),
    ("devices.card_series", "xpu", change_devices(name="M100"), UNKNOWN, "no published set-up"),
    ("devices.linked_group", "xpu", apply_changes(change_vendor(topology=PAIRS), visible("0,1,2")), FAIL, "no direct link"),
    ("devices.linked_group", "xpu", apply_changes(change_vendor(topology=NO_LINKS), visible("0,1")), UNKNOWN, "no direct link"),
    ("devices.linked_group", "xpu", apply_changes(change_vendor(topology=PAIRS), visible(None)), FAIL, "0 and 2 are used"),
    ("driver.version", "xpu", change_document(driver_version="5.19.0.0"), UNKNOWN, "no document compares"),
    ("network.bkcl_nics", "xpu", change_environment(BKCL_RDMA_NICS="eth0,eth0"), FAIL, "2 names for 4 cards"),
]  # fmt: skip
# What looks near it and is well.
WELL: list[tuple[str, str, Change]] = [
    ("devices.linked_group", "xpu", apply_changes(change_vendor(topology=ONE_WAY), visible("2,3"))),
]
