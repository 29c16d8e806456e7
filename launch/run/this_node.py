"""This node in a job of several: its address, rank and interface, and its message to the rendezvous."""

from __future__ import annotations

import contextlib
import hashlib
import json
import socket
import time
from dataclasses import replace

import psutil

from envcheck.collect import answer_sources
from envcheck.core.derived.installed_versions import toolkit_version
from envcheck.core.derived.key_value import driver_version
from envcheck.core.facts import Network, VendorFacts
from envcheck.core.messages import _
from envcheck.core.signals import handle_signals, raise_interrupt
from envcheck.core.version import __version__
from envcheck.job import visible_cards
from envcheck.job.command import TrainingCommand, render_command
from envcheck.job.placeholders import split_address
from envcheck.vendors import VENDORS
from installers.recipes.recipe import Recipe, RecipeJob
from launch.gates.context import GateContext
from launch.rendezvous.handshake import run_rendezvous
from launch.rendezvous.hello import Hello
from launch.rendezvous.result import RendezvousResult, Say, build_failure, build_lone_result
from launch.run.stage_choice import fill_command_values
from launch.targets.train_request import TrainRequest

BY_NODE = (
    "rank",
    "host",
    "output",
    "log_dir",
    "python",
    "data",
    "interfaces",
)  # placeholders that may differ between nodes
# Rendezvous port if the command has no launcher port.  It must be the same on all nodes, so node 0 cannot choose a free
# one.  Not registered at IANA, and next to torchrun's default, 29400.
MEET_PORT = 29399
# Paths of envcheck, and the cards, which may also differ.
OURS = {"program": "{program}", "data": "{data}", "devices": "{devices}"}


def resolve_node(request: TrainRequest, job: RecipeJob, network: Network | None = None) -> TrainRequest:
    """Return the request with address, interface and rank of this node; `network` is that of the machine's facts.

    Without --rank the owner of the master address is node 0; the others get their rank at the rendezvous.
    """
    master = split_address(request.master or "")[0]
    if job.nodes < 2 or not master:
        return request
    given = job.rank if request.rank is None else request.rank
    rank = given if given is not None else 0 if owns_address(master, network) else 1
    found = tuple(name for name in ("rank", "host") if getattr(request, name) is None)
    host = request.host or find_local_address(master, network) or None
    return replace(request, rank=rank, host=host, interfaces=find_interface(host or "", network), found=found)


def gather_nodes(request: TrainRequest, seen: GateContext, auto: bool, say: Say) -> RendezvousResult:
    """Hold the rendezvous of the job's nodes before their launchers start; `auto`: node 0 assigns the ranks."""
    master, given = (
        split_address(request.master or "")[0],
        fill_command_values(request, seen.recipe, seen.stage, seen.runs / "run"),
    )
    same = {token: text for token, text in given.items() if token not in BY_NODE}
    common = render_command(seen.recipe, visible_cards.drop_numbers(seen.job, VENDORS[seen.device]), {**same, **OURS})
    here = build_hello(seen, common, None if auto else request.rank, request.host or "")
    leads = request.rank == 0
    if leads and not owns_address(master):
        words = _(
            "Set this node's own number with --rank, or set --master to an address of this host, such as {address}.",
            address=here.address,
        )
        wrong = _("rank 0 is {master}, which is not an address of this host", master=master)
        return build_lone_result(here, build_failure("nodes.ranks", wrong, words))
    with handle_signals(raise_interrupt):
        return run_rendezvous(here, master, seen.port or request.port or MEET_PORT, request.gather_s, say, leads)


def find_local_address(master: str, network: Network | None = None) -> str:
    """Return the source address of packets to the master, "" without a route."""
    if master in {address for address, _unused in _list_simulated(network)}:
        return master
    with contextlib.suppress(OSError):
        kind, *_, where = socket.getaddrinfo(master, 9, type=socket.SOCK_DGRAM)[0]
        with socket.socket(kind, socket.SOCK_DGRAM) as probe:
            probe.connect(where)  # nothing is sent
            return str(probe.getsockname()[0])
    return ""


def find_interface(host: str, network: Network | None = None) -> str | None:
    """Return the network interface with this address, None without one; FlagCX and HCCL need its name."""
    with contextlib.suppress(OSError):
        mine = {str(entry[4][0]) for entry in socket.getaddrinfo(host, None)} if host else set()
        return next((name for address, name in _list_addresses(network) if address in mine), None)
    return None


def owns_address(master: str, network: Network | None = None) -> bool:
    """Whether the master address belongs to this host."""
    own = {address for address, _unused in _list_addresses(network)}
    with contextlib.suppress(OSError):
        return any(str(entry[4][0]) in own for entry in socket.getaddrinfo(master, None))
    return False


def _list_addresses(network: Network | None) -> list[tuple[str, str]]:
    """Return (address, interface) of this host, and of the simulated one."""
    own = psutil.net_if_addrs()
    real = [(each.address.partition("%")[0], name) for name, found in own.items() for each in found]
    return [*real, *_list_simulated(network)]


def _list_simulated(network: Network | None) -> list[tuple[str, str]]:
    there = network.interfaces if network and answer_sources.simulated_root() else {}
    return [(address, name) for name, found in there.items() for address in found.addresses]


def build_hello(seen: GateContext, common: TrainingCommand, rank: int | None, address: str) -> Hello:
    """Return this node's message; `common` is the command with the placeholders in BY_NODE unfilled."""
    vendor = next((v for v in seen.facts.vendors if v.name == seen.device), VendorFacts(VENDORS[seen.device]))
    return Hello(
        host=socket.gethostname(),
        address=address,
        nodes=seen.job.nodes,
        job=_hash_command(common),
        rank=rank,
        role=seen.job.role,
        device=seen.device,
        devices=len(vendor.devices),
        driver=driver_version(vendor) or "",
        toolkit="" if seen.stage.container else toolkit_version(seen.facts, vendor) or "",
        python=seen.sight.python,
        envcheck=__version__,
        packages=_select_packages(seen.recipe, dict(seen.sight.packages)),
        now=time.time(),
    )


def _select_packages(recipe: Recipe, there: dict[str, str]) -> dict[str, str]:
    """Return the versions of the recipe's packages; others may differ between nodes."""
    from packaging.utils import canonicalize_name

    names = [canonicalize_name(p.name.partition("[")[0]) for p in recipe.packages]
    return {name: there.get(name, "") for name in names if name in there}


def _hash_command(command: TrainingCommand) -> str:
    values = [list(command.argv), dict(command.environment), command.workdir]
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()
