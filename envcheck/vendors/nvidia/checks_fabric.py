"""Checks of NVSwitch systems: the fabric manager, and the fabric state of the GPUs."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.core.check import Check, vendor_check
from envcheck.core.derived.key_value import driver_version
from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.findings import (
    fail,
    is_in_container,
    ok,
    quote_answer,
    report_unanswered,
    skip,
    skipped_because,
    suppressed_by,
    unknown,
)
from envcheck.core.messages import _, ngettext
from envcheck.core.model import Answer, Finding, Outcome, diagnose, fix

LSPCI, TABLE = "run lspci -nn -d 10de:", "run nvidia-smi -q -x"
UNIT = "run systemctl show nvidia-fabricmanager -p LoadState,ActiveState"
MANAGER = "run nv-fabricmanager --version"
SWITCH = re.compile(r"^.{0,200}\[0680\].{0,200}NVSwitch.*$", re.MULTILINE | re.IGNORECASE)
STATE = re.compile(r"<fabric>\s*<state>([^<]{0,40})</state>\s*<status>([^<]{0,80})</status>")
START = "sudo systemctl enable --now nvidia-fabricmanager"


def check_fabric(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """On hosts with NVSwitch, the fabric manager runs and has the version of the driver."""
    lspci, table = facts.answers.get(LSPCI), facts.answers.get(TABLE)
    states = STATE.findall(table.out) if table and table.ok else []
    reported = [(state, status) for state, status in states if state not in ("N/A", "")]
    if lspci is None or lspci.outcome not in (Outcome.ANSWERED, Outcome.EMPTY):
        yield (
            report_unanswered(facts, LSPCI)
            if v.devices
            else suppressed_by("driver.tool", report_unanswered(facts, LSPCI))
        )
    elif not reported and not SWITCH.search(lspci.out):
        yield skip(_("no NVSwitch on the PCI bus"))
    elif v.document is None or not v.devices:
        yield skipped_because("driver.tool")
    elif bad := next((pair for pair in reported if pair[0] != "Completed" or pair[1] not in ("Success", "N/A")), None):
        words = _(
            "Start the fabric manager that matches the driver: CUDA fails with error 802 (system not "
            "yet initialized) without it."
        )
        seen = _("the fabric state is {state}, {status}", state=bad[0], status=bad[1])
        yield fail(seen, fix(words, START), evidence=quote_answer(table, "<state>", bad[0]))
    elif reported:
        yield ok(ngettext("{count} GPU has joined the fabric", "{count} GPUs have joined the fabric", len(reported)))
    else:
        yield _check_fabric_service(facts, v)


def _check_fabric_service(facts: Facts, v: VendorFacts) -> Finding:
    """Evaluate the service and its version: older drivers do not report the fabric state."""
    unit, manager = facts.answers.get(UNIT), facts.answers.get(MANAGER)
    service = dict(re.findall(r"^(\w+)=(\S+)$", unit.out, re.MULTILINE)) if unit and unit.ok else {}
    mine, driver = _parse_version(manager), driver_version(v)
    if mine and driver and mine != driver:
        words = _(
            "Install the fabric manager that matches the driver, and hold both packages: it "
            "does not run with another version."
        )
        seen = _("fabric manager is {mine}, but driver is {driver}", mine=mine, driver=driver)
        return fail(
            seen, fix(words, f"sudo apt-get install {_name_package(driver)}"), evidence=quote_answer(manager, mine)
        )
    if is_in_container(facts) and not service:
        return unknown(
            _("the fabric manager runs on the host and is not visible in a container"),
            diagnose(_("Check the service on the host."), UNIT[4:]),
        )
    if not {"ActiveState", "LoadState"} <= service.keys():
        return report_unanswered(facts, UNIT)
    if service["LoadState"] == "not-found":
        words = _("Install and start the fabric manager that matches the driver: CUDA fails with error 802 without it.")
        return fail(
            _("NVSwitches found, but no service nvidia-fabricmanager"),
            fix(words, *((f"sudo apt-get install {_name_package(driver)}",) if driver else ()), START),
            evidence=quote_answer(unit, "LoadState"),
        )
    if service["ActiveState"] != "active":
        words = _(
            "Start the service, and check its log: CUDA fails with error 802 (system not yet initialized) without it."
        )
        seen = _("service nvidia-fabricmanager is not active (state: {state})", state=service["ActiveState"])
        return fail(
            seen, fix(words, START, "journalctl -u nvidia-fabricmanager"), evidence=quote_answer(unit, "ActiveState")
        )
    return ok(_("{name} is active", name=f"nvidia-fabricmanager {mine or ''}".strip()))


def _name_package(driver: str) -> str:
    """Return the Debian package of the fabric manager for this driver."""
    return f"nvidia-fabricmanager-{driver.partition('.')[0]}={driver}-1"


def _parse_version(answer: Answer | None) -> str | None:
    """Return the version in `Fabric Manager version is : 570.124.06`."""
    found = re.search(r"version is\s*:\s*(\d+(?:\.\d+)+)", answer.out, re.IGNORECASE) if answer and answer.ok else None
    return found[1] if found else None


CHECKS: tuple[Check, ...] = (
    vendor_check(
        "driver.fabric",
        check_fabric,
        reads="lspci, nvidia-smi -q -x, systemctl, nv-fabricmanager --version",
        source="NVIDIA/NVSentinel#808, DCGM code 108; NVIDIA fabric manager guide",
        rule=(
            "FAIL if a GPU has not joined the fabric; if that is unknown, FAIL if the service is inactive or of "
            "another version"
        ),
        fix="Start the fabric manager of the driver version.",
    ),
)
