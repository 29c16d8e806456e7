"""Gates for ports, addresses and host names."""

from __future__ import annotations

import ipaddress

from envcheck.core import versions
from envcheck.core.derived.installed_versions import toolkit_version
from envcheck.core.facts import Facts
from envcheck.core.messages import NOTHING, Message, _, fill, join
from envcheck.core.model import Finding, Status, diagnose, fix, manual
from envcheck.job.command import TrainingCommand
from envcheck.vendors import VENDORS
from installers.recipes.own_recipe import find_own_job
from installers.recipes.recipe import Recipe, RecipeJob
from launch.gates.context import GateContext
from launch.gates.results import block_if_unreachable, build_blocked, build_finding, build_not_applicable, build_ok
from launch.programs.place_probe import PORT_RANGE

MAX_PORT = 65535
PortSpan = tuple[int, int]  # first port, how many


def check_launcher_port(s: GateContext) -> Finding:
    """On node 0 the port of the launcher is free."""
    if s.port is None:
        return build_ok("gate.port", _("the launcher chooses free ports"))
    if not s.leads:
        return build_not_applicable("gate.port", _("only node 0 opens port {port}", port=s.port))
    if found := block_if_unreachable("gate.port", s):
        return found
    words = _("Choose another port with --port, or stop the process that uses this one.")
    seen = _("port {port}: {port_error}", port=s.port, port_error=fill(s.port_error) if s.port_error else _("free"))
    return build_finding("gate.port", s.port_error is None, seen, diagnose(words, f"ss -ltnp 'sport = :{s.port}'"))


def check_collective_ports(s: GateContext) -> Finding:
    """The ports of the collectives are free: 16 for HCCL, 32 since CANN 8.2.

    Gloo and NCCL use ephemeral ports: enough of the kernel's range must be free.
    """
    found = find_port_span(s.recipe, s.job, s.command, s.device, s.facts)
    if found is None:
        return _check_kernel_ports(s)
    first, count = found
    seen, name = _("ports {first}-{last}", first=first, last=first + count - 1), VENDORS[s.device].port_env
    if first < 1 or first + count - 1 > MAX_PORT:
        return build_finding(
            "gate.ports",
            False,
            _("{seen}: out of range (1-{most})", seen=seen, most=MAX_PORT),
            manual(_("Set {name} to a lower port.", name=name)),
        )
    if clash := describe_clash(s.port if s.leads else None, found):
        return build_finding("gate.ports", False, clash, manual(_("Choose another port with --port.")))
    if hidden := block_if_unreachable("gate.ports", s):
        return hidden
    tested = {number: why for number, why in s.sight.ports.items() if first <= number < first + count}
    if len(tested) < count:
        return build_finding(
            "gate.ports",
            None,
            _("{seen}: not tested", seen=seen),
            diagnose(_("List the listening sockets."), "ss -ltnp"),
        )
    taken = tuple(_("port {number}: {why}", number=number, why=fill(why)) for number, why in tested.items() if why)
    words = _(
        "Stop the processes that use them, or set {name} to another range, identical on every node. "
        "Reserve the range for collectives.",
        name=name,
    )
    commands = f"sysctl -w net.ipv4.ip_local_reserved_ports={first}-{first + count - 1}"
    state = _("{count} in use", count=len(taken)) if taken else _("free")
    return build_finding(
        "gate.ports",
        not taken,
        _("{seen}: {state}", seen=seen, state=state),
        fix(words, "ss -ltnp", commands),
        evidence=taken,
    )


def describe_clash(port: int | None, span: PortSpan | None) -> Message:
    """Return that the launcher's port is one of the collectives' ports, NOTHING if it is not."""
    if port is None or span is None or not span[0] <= port < span[0] + span[1]:
        return NOTHING
    return _(
        "port {port} of the launcher is one of the ports of the collectives, {first}-{last}",
        port=port,
        first=span[0],
        last=span[0] + span[1] - 1,
    )


def _check_kernel_ports(s: GateContext) -> Finding:
    """Each process needs one port to listen and one per connection to every other process, as in Gloo's full mesh."""
    if (world := s.job.nodes * s.job.processes) < 2:
        return build_not_applicable("gate.ports", _("a single process needs no collective ports"))
    if hidden := block_if_unreachable("gate.ports", s):
        return hidden
    words = _("Widen the range, or stop the processes that use so many ports.")
    commands = 'sysctl -w net.ipv4.ip_local_port_range="32768 60999"'
    if s.sight.kernel_ports is None:
        return build_finding(
            "gate.ports",
            None,
            _("cannot read {port_range}", port_range=PORT_RANGE),
            diagnose(_("Show the range."), f"cat {PORT_RANGE}"),
        )
    free, total = s.sight.kernel_ports
    wanted = s.job.processes * world
    seen = _(
        "the collectives need {wanted} ephemeral ports; {free} of {total} are free",
        wanted=wanted,
        free=free,
        total=total,
    )
    return build_finding("gate.ports", free >= wanted, seen, fix(words, "ss -ant | wc -l", commands))


def find_port_span(
    recipe: Recipe, job: RecipeJob, command: TrainingCommand, device: str, facts: Facts
) -> PortSpan | None:
    """Return the fixed ports of the collectives, None if there are none; the largest span for an unknown toolkit."""
    kind = VENDORS[device]
    if not kind.port_env or job.nodes * job.processes < 2:
        return None
    given = {**(recipe.container.environment if recipe.container else {}), **command.environment}
    said = given.get(kind.port_env, "") or (facts.environment or {}).get(kind.port_env, "")
    first = int(said) if said.isascii() and said.isdecimal() and len(said) < 7 else kind.port_base
    found = next((v for v in facts.vendors if v.name == device), None)
    here = toolkit_version(facts, found) if found and not recipe.image else None
    toolkit = here or recipe.toolkit_minimum or ""
    fits = [n for floor, n in kind.port_spans if not toolkit or versions.is_at_least(toolkit, floor) is not False]
    return first, (fits or [n for _unused, n in kind.port_spans[:1]] or [1])[0]


def check_master_address(s: GateContext) -> Finding:
    """The master address belongs to node 0 and to no other node; the rendezvous tests the connection."""
    if s.job.nodes < 2:
        return build_not_applicable("gate.master", _("the job has one node"))
    if find_own_job(s.recipe) is not None:
        return build_not_applicable("gate.master", _("the job's own command names the other nodes"))
    if not s.master:
        return build_blocked("gate.master", "gate.command", _("--master is not set"))
    words = _("Set --master to the address of node 0, identical on every node, or set another --rank on this node.")
    if not s.leads and s.own_master:
        seen = _(
            "{master} is an address of this machine, but --rank is {rank}; the address must belong to node 0",
            master=s.master,
            rank=s.rank,
        )
        return build_finding("gate.master", False, seen, diagnose(words, "ip -brief address"))
    if not s.leads:
        return build_not_applicable(
            "gate.master", _("{master} is node 0; the rendezvous verifies the connection", master=s.master)
        )
    seen = (
        _("{master} is an address of this machine (node 0)", master=s.master)
        if s.own_master
        else _("{master} is not an address of this machine (node 0)", master=s.master)
    )
    if s.own_master is None:
        return build_finding(
            "gate.master",
            None,
            _("cannot resolve {master}", master=s.master),
            diagnose(words, f"getent hosts {s.master}"),
        )
    return build_finding("gate.master", s.own_master, seen, diagnose(words, "ip -brief address"))


def check_own_name(s: GateContext) -> Finding:
    """The host name resolves to an address; with several nodes, to a non-loopback address."""
    known = s.facts.network
    if known is None:
        words = _("Show the addresses of the host name.")
        return build_finding(
            "gate.name",
            None,
            _("cannot determine what the host name resolves to"),
            diagnose(words, "getent hosts $(hostname)"),
        )
    found = known.resolves_to or ()
    several = s.job.nodes > 1
    good = any(not _is_loopback(a) for a in found) if several else bool(found)
    seen = (
        _("the host name resolves to {found}", found=join(", ", found))
        if found
        else _("the host name does not resolve to an address")
    )
    uses_host = bool(s.host) and s.host in s.command.argv
    if s.own_host is False and (good or uses_host):
        words = _(
            "Set --host to the address at which the other nodes reach this machine. An address "
            "translated by a router (NAT) is fine."
        )
        foreign = _("--host {host} is not an address of this machine", host=s.host)
        return build_finding("gate.name", False, foreign, diagnose(words, "ip -brief address"), bad=Status.WARN)
    if not good and uses_host:  # --host itself rejects loopback addresses
        words = _("{seen}; the launcher uses {host} from --host", seen=seen, host=s.host)
        return build_finding(
            "gate.name",
            False,
            words,
            manual(_("Add the host name to /etc/hosts; collectives that look it up cannot connect otherwise.")),
            bad=Status.WARN,
        )
    words = _(
        "Add this machine's name and address to /etc/hosts; launcher and collectives use them to "
        "find this node. If variables such as GLOO_SOCKET_IFNAME select the interface, waive this "
        "check with --waive name."
    )
    return build_finding(
        "gate.name",
        good,
        seen,
        diagnose(words, "getent hosts $(hostname)"),
        bad=Status.FAIL if several else Status.WARN,
    )


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address.partition("%")[0]).is_loopback
    except ValueError:
        return False
