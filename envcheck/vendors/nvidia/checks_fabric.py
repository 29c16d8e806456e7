"""NVSwitches: the fabric manager that sets them up, and what the GPUs say of their fabric."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.core.check import Check, of_vendor
from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.findings import fail, follows, in_container, not_told, ok, quote, skip, told_by, unknown
from envcheck.core.key_value import driver_version
from envcheck.core.model import Answer, Finding, Outcome

LSPCI, TABLE = "run lspci -nn -d 10de:", "run nvidia-smi -q -x"
UNIT = "run systemctl show nvidia-fabricmanager -p LoadState,ActiveState"
MANAGER = "run nv-fabricmanager --version"
SWITCH = re.compile(r"^.*\[0680\].*NVSwitch.*$", re.MULTILINE | re.IGNORECASE)
STATE = re.compile(r"<fabric>\s*<state>([^<]{0,40})</state>\s*<status>([^<]{0,80})</status>")
START = "sudo systemctl enable --now nvidia-fabricmanager"


def fabric(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """Where GPUs are joined by NVSwitches, the fabric manager runs and is of the driver's version."""
    lspci, table = facts.answers.get(LSPCI), facts.answers.get(TABLE)
    states = STATE.findall(table.out) if table and table.ok else []
    told = [(state, status) for state, status in states if state not in ("N/A", "")]
    if lspci is None or lspci.outcome not in (Outcome.ANSWERED, Outcome.EMPTY):
        yield not_told(facts, LSPCI) if v.devices else told_by("driver.tool", not_told(facts, LSPCI))
    elif not told and not SWITCH.search(lspci.out):
        yield skip("no NVSwitch is on the bus")
    elif v.document is None or not v.devices:
        yield follows("driver.tool")
    elif bad := next((pair for pair in told if pair[0] != "Completed" or pair[1] not in ("Success", "N/A")), None):
        words = "Start the fabric manager of the driver's version: CUDA says 802, system not yet initialized."
        seen = f"the fabric's state is {bad[0]}, {bad[1]}"
        yield fail(seen, words, START, evidence=quote(table, "<state>", bad[0]))
    elif told:
        yield ok(f"{len(told)} GPUs have joined the fabric")
    else:
        yield _by_unit(facts, v)


def _by_unit(facts: Facts, v: VendorFacts) -> Finding:
    """Older drivers say nothing of the fabric: the service and its version do."""
    unit, manager = facts.answers.get(UNIT), facts.answers.get(MANAGER)
    said = dict(re.findall(r"^(\w+)=(\S+)$", unit.out, re.MULTILINE)) if unit and unit.ok else {}
    mine, driver = _version(manager), driver_version(v)
    if mine and driver and mine != driver:
        words = "Install the fabric manager of the driver's version, and hold both packages: it stops with another."
        fix = f"nvidia-fabricmanager-{driver.partition('.')[0]}={driver}-1"
        seen = f"fabric manager {mine}, driver {driver}"
        return fail(seen, words, f"sudo apt-get install {fix}", evidence=quote(manager, mine))
    if in_container(facts) and not said:
        return unknown("the fabric manager runs on the host, which a container does not see", "Look there.", UNIT[4:])
    if not {"ActiveState", "LoadState"} <= said.keys():
        return not_told(facts, UNIT)
    if said["LoadState"] == "not-found":
        words = "Install the one of the driver's version, or start it, where no service does: CUDA says 802 without."
        return fail("NVSwitches, and no service nvidia-fabricmanager", words, START, evidence=quote(unit, "LoadState"))
    if said["ActiveState"] != "active":
        words = "Start it, and read its log: CUDA says 802, system not yet initialized."
        seen = f"nvidia-fabricmanager is {said['ActiveState']}"
        return fail(seen, words, START, "journalctl -u nvidia-fabricmanager", evidence=quote(unit, "ActiveState"))
    return ok(f"nvidia-fabricmanager {mine or ''}".strip() + " is active")


def _version(answer: Answer | None) -> str | None:
    """`Fabric Manager version is : 570.124.06`"""
    found = re.search(r"version is\s*:\s*(\d+(?:\.\d+)+)", answer.out, re.IGNORECASE) if answer and answer.ok else None
    return found[1] if found else None


CHECKS: tuple[Check, ...] = (
    of_vendor(
        "driver.fabric",
        fabric,
        reads="lspci, nvidia-smi -q -x, systemctl, nv-fabricmanager --version",
        source="NVIDIA/NVSentinel#808, DCGM code 108; NVIDIA's fabric manager guide",
        rule="FAIL when a GPU has not joined the fabric; where that is not told, when the service is not active or "
        "of another version than the driver",
        fix="Start the service of the driver's version.",
    ),
)
