"""Helpers shared by the gates: build findings, and determine the cards and variables of the job."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from envcheck.core.facts import VendorFacts
from envcheck.core.messages import Message, _
from envcheck.core.model import Device, Finding, Remedy, Status
from envcheck.vendors import VENDORS
from launch.gates.context import GateContext
from launch.targets.clean_environment import clean_variables

# Options of paddle.distributed.launch that list cards.
LISTS = ("--devices", *dict.fromkeys(vendor.launch_option for vendor in VENDORS.values() if vendor.launch_option))


def build_finding(
    name: str,
    good: bool | None,
    seen: Message,
    remedy: Remedy,
    *,
    bad: Status = Status.FAIL,
    evidence: tuple[str, ...] = (),
) -> Finding:
    """Return a finding with status OK for True, `bad` for False and UNKNOWN for None; OK drops the remedy."""
    status = {True: Status.OK, False: bad, None: Status.UNKNOWN}[good]
    return Finding(name, status, seen, None if good else remedy, evidence)


def build_ok(name: str, seen: Message, evidence: tuple[str, ...] = ()) -> Finding:
    """Return a finding with status OK."""
    return Finding(name, Status.OK, seen, None, evidence)


def build_not_applicable(name: str, seen: Message) -> Finding:
    """Return a finding with status NOT_APPLICABLE."""
    return Finding(name, Status.NOT_APPLICABLE, seen)


def build_blocked(name: str, cause: str, seen: Message) -> Finding:
    """Return a finding with status BLOCKED: not checked because the gate `cause` failed."""
    return Finding(
        name, Status.BLOCKED, _("{seen}; not checked because {cause} failed", seen=seen, cause=cause), blocked_by=cause
    )


def block_if_unreachable(name: str, s: GateContext) -> Finding | None:
    """Return a BLOCKED finding if the container cannot be inspected, else None."""
    if not s.stage.container or not (s.sight.missing or s.sight.obstacle):
        return None
    cause = "gate.environment" if s.sight.missing else "gate.container"
    return build_blocked(name, cause, _("cannot inspect {title}", title=s.stage.title))


def find_vendor_facts(s: GateContext) -> VendorFacts | None:
    """Return the facts of the job's device type, None if none were collected."""
    return next((v for v in s.facts.vendors if v.name == s.device), None)


def build_environment(s: GateContext) -> Mapping[str, str]:
    """Return the environment variables of the training's processes."""
    return clean_variables(s.sight.environment, s.command, s.device, "").environment


def read_visible_devices(s: GateContext) -> str | None:
    """Return the visible-device list of the training, None if all devices are visible."""
    name = VENDORS[s.device].visible_env
    return build_environment(s).get(name) if name else None


def read_launcher_devices(s: GateContext) -> str | None:
    """Return the device list on the launcher's command line, None without one."""
    words = s.command.launcher
    return next((text for option, text in pairwise(words) if option in LISTS), None)


def select_job_devices(s: GateContext) -> tuple[Device, ...]:
    """Return the cards that the job uses: the chosen ones, else the first of the visible ones, one per process."""
    found = find_vendor_facts(s)
    devices = found.devices if found else ()
    if s.choice:
        return tuple(devices[n] for n in s.choice.places if n < len(devices))
    said = read_visible_devices(s) or read_launcher_devices(s)
    if said is not None and said.replace(",", "").isdecimal() and all(said.split(",")):
        devices = tuple(devices[int(n)] for n in said.split(",") if int(n) < len(devices))
    return devices[: s.job.processes]
