"""What this node is in a job of several: its address as the others reach it, whether it leads, what it greets with."""

from __future__ import annotations

import contextlib
import hashlib
import json
import socket
import time
from dataclasses import replace

import psutil

from envcheck.core.facts import VendorFacts
from envcheck.core.installed_versions import toolkit_version
from envcheck.core.key_value import driver_version
from envcheck.core.signals import heard_by, interrupt
from envcheck.core.version import __version__
from envcheck.job.command import TrainingCommand, render
from envcheck.job.placeholders import split_address
from envcheck.vendors import VENDORS
from installers.recipes.recipe import Recipe, RecipeJob
from launch.gates.context import GateContext
from launch.rendezvous.hello import Hello
from launch.rendezvous.meeting import meet
from launch.rendezvous.result import RendezvousResult, Say, alone, failed
from launch.run.choose import filled
from launch.targets.request import TrainRequest

BY_NODE = ("rank", "host", "output", "log_dir", "python", "data", "interfaces")  # tokens that differ rightly
# Where nodes meet whose launcher opens no port that its command names: the same on all, as nobody can tell the others a
# port that node 0 found free.  Nothing is registered there; torchrun's own one, 29400, is the next.
MEET_PORT = 29399
OURS = {"program": "{program}", "data": "{data}"}  # where envcheck itself lies on a node, which may differ, too


def settled(request: TrainRequest, job: RecipeJob) -> TrainRequest:
    """With this node's address and rank; where nobody gave it a rank, who owns the master's address is node 0 and the
    others learn theirs when they meet."""
    master = split_address(request.master or "")[0]
    if job.nodes < 2 or not master:
        return request
    given = job.rank if request.rank is None else request.rank
    rank = given if given is not None else 0 if owns(master) else 1
    found = tuple(name for name in ("rank", "host") if getattr(request, name) is None)
    host = request.host or address_towards(master) or None
    return replace(request, rank=rank, host=host, interfaces=interface(host or ""), found=found)


def gather(request: TrainRequest, seen: GateContext, auto: bool, say: Say) -> RendezvousResult:
    """The nodes of the job, before their launchers start; `auto`: node 0 gives the ranks."""
    master, given = split_address(request.master or "")[0], filled(request, seen.recipe, seen.stage, seen.runs / "run")
    same = {token: text for token, text in given.items() if token not in BY_NODE}
    common = render(seen.recipe, seen.job, {**same, **OURS})
    here = greeting(seen, common, None if auto else request.rank, request.host or "")
    leads = request.rank == 0
    if leads and not owns(master):
        words = f"Give this node its own number by --rank, or --master an address of this host, such as {here.address}."
        return alone(here, failed("nodes.ranks", f"rank 0 is {master}, which is no address of this host", words))
    with heard_by(interrupt):
        return meet(here, master, seen.port or request.port or MEET_PORT, request.gather_s, say, leads)


def address_towards(master: str) -> str:
    """The address of this host that packets to the master bear; "" where there is no way to it."""
    with contextlib.suppress(OSError):
        kind, *_, where = socket.getaddrinfo(master, 9, type=socket.SOCK_DGRAM)[0]
        with socket.socket(kind, socket.SOCK_DGRAM) as probe:
            probe.connect(where)  # nothing is sent
            return str(probe.getsockname()[0])
    return ""


def interface(host: str) -> str | None:
    """The one that has the address: FlagCX and others want it by its name; None where none of this host's has it."""
    with contextlib.suppress(OSError):
        mine = {str(entry[4][0]) for entry in socket.getaddrinfo(host, None)} if host else set()
        for name, found in psutil.net_if_addrs().items():
            if any(a.address.partition("%")[0] in mine for a in found):
                return name
    return None


def owns(master: str) -> bool:
    """One of this host's own addresses is the master's."""
    own = {a.address.partition("%")[0] for found in psutil.net_if_addrs().values() for a in found}
    with contextlib.suppress(OSError):
        return any(str(entry[4][0]) in own for entry in socket.getaddrinfo(master, None))
    return False


def greeting(seen: GateContext, common: TrainingCommand, rank: int | None, address: str) -> Hello:
    """`common` is the command with its tokens of BY_NODE left open."""
    vendor = next((v for v in seen.facts.vendors if v.name == seen.device), VendorFacts(VENDORS[seen.device]))
    return Hello(
        host=socket.gethostname(),
        address=address,
        nodes=seen.job.nodes,
        job=_hash(common),
        rank=rank,
        role=seen.job.role,
        device=seen.device,
        devices=len(vendor.devices),
        driver=driver_version(vendor) or "",
        toolkit="" if seen.stage.container else toolkit_version(seen.facts, vendor) or "",
        python=seen.sight.python,
        envcheck=__version__,
        packages=_packages(seen.recipe, dict(seen.sight.packages)),
        now=time.time(),
    )


def _packages(recipe: Recipe, there: dict[str, str]) -> dict[str, str]:
    """Those that the recipe names: the rest may differ."""
    from packaging.utils import canonicalize_name

    names = [canonicalize_name(p.name.partition("[")[0]) for p in recipe.packages]
    return {name: there.get(name, "") for name in names if name in there}


def _hash(command: TrainingCommand) -> str:
    told = [list(command.argv), dict(command.environment), command.workdir]
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()
