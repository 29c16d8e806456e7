"""Ports, addresses and names."""

from __future__ import annotations

import ipaddress

from envcheck.core import versions
from envcheck.core.facts import Facts
from envcheck.core.installed_versions import toolkit_version
from envcheck.core.model import Finding, Status
from envcheck.job.command import TrainingCommand
from envcheck.vendors import VENDORS
from installers.recipes.recipe import Recipe, RecipeJob
from launch.gates.answers import answer, blocked, ok, skip, unseen
from launch.gates.context import GateContext
from launch.programs.place_probe import PORT_RANGE

MOST = 65535
Span = tuple[int, int]  # first port, how many


def port(s: GateContext) -> Finding:
    """The port that the launcher would open is free, where it leads."""
    if s.port is None:
        return ok("gate.port", "the launcher looks for free ports itself")
    if not s.leads:
        return skip("gate.port", f"port {s.port} is opened on node 0")
    if found := unseen("gate.port", s):
        return found
    words = "Choose another with --port, or end who holds it."
    seen = f"port {s.port}: {s.port_error or 'free'}"
    return answer("gate.port", s.port_error is None, seen, words, f"ss -ltnp 'sport = :{s.port}'")


def ports(s: GateContext) -> Finding:
    """The ports that the collectives open on the host are free: HCCL's 16, or 32 from CANN 8.2 on; for Gloo and NCCL,
    who take what the kernel gives, enough of its range."""
    found = span(s.recipe, s.job, s.command, s.device, s.facts)
    if found is None:
        return _kernel_ports(s)
    first, count = found
    seen, name = f"ports {first} to {first + count - 1}", VENDORS[s.device].port_env
    if first < 1 or first + count - 1 > MOST:
        return answer("gate.ports", False, f"{seen}: there is none beyond {MOST}", f"Set {name} lower.")
    if hidden := unseen("gate.ports", s):
        return hidden
    told = {number: why for number, why in s.sight.ports.items() if first <= number < first + count}
    if len(told) < count:
        return answer("gate.ports", None, f"{seen} were not tried", "Look who listens there.", "ss -ltnp")
    taken = tuple(f"port {number}: {why}" for number, why in told.items() if why)
    words = (
        f"End who holds them, or set {name} to another range, the same on each node; reserve it for the collectives."
    )
    fix = f"sysctl -w net.ipv4.ip_local_reserved_ports={first}-{first + count - 1}"
    state = f"{len(taken)} taken" if taken else "free"
    return answer("gate.ports", not taken, f"{seen}: {state}", words, "ss -ltnp", fix, evidence=taken)


def _kernel_ports(s: GateContext) -> Finding:
    """Each process listens once and connects to every other one, as Gloo's full mesh does."""
    if (world := s.job.nodes * s.job.processes) < 2:
        return skip("gate.ports", "one process has nobody to connect to")
    if hidden := unseen("gate.ports", s):
        return hidden
    words = "Widen the range, or end who holds so many."
    fix = 'sysctl -w net.ipv4.ip_local_port_range="32768 60999"'
    if s.sight.kernel_ports is None:
        return answer("gate.ports", None, f"could not read {PORT_RANGE}", "See how wide it is.", f"cat {PORT_RANGE}")
    free, total = s.sight.kernel_ports
    wanted = s.job.processes * world
    seen = f"its collectives open {wanted} ports that the kernel chooses: {free} of its {total} are free"
    return answer("gate.ports", free >= wanted, seen, words, "ss -ant | wc -l", fix)


def span(recipe: Recipe, job: RecipeJob, command: TrainingCommand, device: str, facts: Facts) -> Span | None:
    """The collectives' ports of a job of several processes; where the toolkit's version is unknown, the most."""
    kind = VENDORS[device]
    if not kind.port_env or job.nodes * job.processes < 2:
        return None
    given = {**(recipe.container.environment if recipe.container else {}), **command.environment}
    said = given.get(kind.port_env, "") or (facts.environment or {}).get(kind.port_env, "")
    first = int(said) if said.isascii() and said.isdecimal() and len(said) < 7 else kind.port_base
    found = next((v for v in facts.vendors if v.name == device), None)
    here = toolkit_version(facts, found) if found and not recipe.image else None
    toolkit = here or recipe.toolkit_minimum or ""
    fits = [n for floor, n in kind.port_spans if not toolkit or versions.at_least(toolkit, floor) is not False]
    return first, (fits or [n for _, n in kind.port_spans[:1]] or [1])[0]


def master(s: GateContext) -> Finding:
    """Node 0, and no other, has the address that the others are told; whether they reach it is proved when the nodes
    meet."""
    if s.job.nodes < 2:
        return skip("gate.master", "the job has one node")
    if not s.master:
        return blocked("gate.master", "gate.command", "no address was given")
    words = "Give node 0's own address by --master, the same on each node; or this node another --rank."
    if not s.leads and s.own_master:
        seen = f"{s.master} is this machine's own, and --rank says {s.rank}: node 0 has it"
        return answer("gate.master", False, seen, words, "ip -brief address")
    if not s.leads:
        return skip("gate.master", f"{s.master} is node 0's; the meeting of the nodes proves that it answers")
    seen = f"{s.master} is {'an' if s.own_master else 'no'} address of this machine, which is node 0"
    if s.own_master is None:
        return answer("gate.master", None, f"could not tell where {s.master} leads", words, f"getent hosts {s.master}")
    return answer("gate.master", s.own_master, seen, words, "ip -brief address")


def own_name(s: GateContext) -> Finding:
    """The machine's own name leads to an address; with several nodes, to one that the others reach."""
    known = s.facts.network
    if known is None:
        words = "See what it leads to."
        return answer(
            "gate.name", None, "could not tell what the own name resolves to", words, "getent hosts $(hostname)"
        )
    found = known.resolves_to or ()
    several = s.job.nodes > 1
    good = any(not _loopback(a) for a in found) if several else bool(found)
    seen = f"the own name resolves to {', '.join(found) or 'nothing'}"
    told = bool(s.host) and s.host in s.command.argv
    if s.own_host is False and (good or told):
        words = "Give the address of this machine by which the others reach it; one that a router translates is right."
        foreign = f"{s.host}, of --host, is no address of this machine"
        return answer("gate.name", False, foreign, words, "ip -brief address", bad=Status.WARN)
    if not good and told:  # a loopback address is refused where it is said
        words = f"{seen}; the launcher is told {s.host} by --host"
        return answer("gate.name", False, words, "Collectives that ask for the name find no way.", bad=Status.WARN)
    words = (
        "Add the machine's name and address to /etc/hosts: launcher and collectives find this node by them. Where "
        "variables such as GLOO_SOCKET_IFNAME name the interface, --waive name opens this gate."
    )
    return answer(
        "gate.name", good, seen, words, "getent hosts $(hostname)", bad=Status.FAIL if several else Status.WARN
    )


def _loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address.partition("%")[0]).is_loopback
    except ValueError:
        return False
