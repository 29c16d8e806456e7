"""What the gates share: an answer with its status, and which cards and variables the job will have."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from envcheck.core.facts import VendorFacts
from envcheck.core.model import Device, Finding, Remedy, Status
from envcheck.vendors import VENDORS
from launch.gates.context import GateContext
from launch.targets.clean_environment import clean

LISTS = ("--gpus", "--npus", "--xpus", "--devices")  # of paddle.distributed.launch


def answer(
    name: str,
    good: bool | None,
    seen: str,
    words: str,
    *commands: str,
    bad: Status = Status.FAIL,
    evidence: tuple[str, ...] = (),
) -> Finding:
    """OK, `bad`, or with None: cannot tell."""
    status = {True: Status.OK, False: bad, None: Status.UNKNOWN}[good]
    return Finding(name, status, seen, None if good else Remedy(words, commands), evidence)


def ok(name: str, seen: str, evidence: tuple[str, ...] = ()) -> Finding:
    return Finding(name, Status.OK, seen, None, evidence)


def skip(name: str, seen: str) -> Finding:
    """Does not apply."""
    return Finding(name, Status.NOT_APPLICABLE, seen)


def blocked(name: str, cause: str, seen: str) -> Finding:
    """Not checked, because the gate `cause` is closed."""
    return Finding(name, Status.BLOCKED, f"{seen}; not checked because {cause} failed", blocked_by=cause)


def unseen(name: str, s: GateContext) -> Finding | None:
    """BLOCKED where the container cannot be looked into, by the gate that says why."""
    if not s.stage.container or not (s.sight.missing or s.sight.obstacle):
        return None
    cause = "gate.environment" if s.sight.missing else "gate.container"
    return blocked(name, cause, f"{s.stage.container} is not there to look into")


def vendor(s: GateContext) -> VendorFacts | None:
    return next((v for v in s.facts.vendors if v.name == s.device), None)


def environment(s: GateContext) -> Mapping[str, str]:
    """What the training's processes will have."""
    return clean(s.sight.environment, s.command, s.device, "").environment


def visible(s: GateContext) -> str | None:
    """The list of devices that the training sees; None for all."""
    name = VENDORS[s.device].visible_env
    return environment(s).get(name) if name else None


def listed(s: GateContext) -> str | None:
    """The list of devices that the launcher is told."""
    words = s.command.launcher
    return next((text for option, text in pairwise(words) if option in LISTS), None)


def used(s: GateContext) -> tuple[Device, ...]:
    """The cards on which the job starts its processes: the first of those that it sees."""
    found = vendor(s)
    devices = found.devices if found else ()
    said = visible(s) or listed(s)
    if said is not None and said.replace(",", "").isdecimal() and all(said.split(",")):
        devices = tuple(devices[int(n)] for n in said.split(",") if int(n) < len(devices))
    return devices[: s.job.processes]
