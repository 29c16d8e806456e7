"""RDMA: devices that programs can open, ports that are up, and what variables say of them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from envcheck.core.check import Check, of_machine
from envcheck.core.facts import Facts
from envcheck.core.findings import fail, figures, in_container, nodes_wanted, not_told, ok, reading, skip, unknown, warn
from envcheck.core.model import Finding
from probes.host import network_schemas
from probes.host.network_schemas import Port, Rdma

HCAS = ("NCCL_IB_HCA", "FLAGCX_IB_HCA")
GID = "NCCL_IB_GID_INDEX"
GIDS_READ = 16  # probes/host/rdma.py looks no further
Ports = dict[tuple[str, int], Port]


@reading(network_schemas.rdma, "ask rdma")
def nodes(found: Rdma, facts: Facts) -> Iterator[Finding]:
    """Where the kernel has RDMA devices, programs can open them: NCCL goes over TCP otherwise, and says nothing."""
    if not found.devices:
        yield skip("this system has no RDMA device")
    elif found.verbs:
        yield ok(f"{', '.join(list(found.devices)[:8])}, with {len(found.verbs)} nodes to open")
    elif not facts.vendors:
        yield skip("no accelerator")
    else:
        inside = in_container(facts)
        words = "Start the container anew with the nodes." if inside else "Load the module that makes the nodes."
        fix = "docker run --device /dev/infiniband --ulimit memlock=-1" if inside else "sudo modprobe ib_uverbs"
        shown = figures("/sys/class/infiniband", devices=", ".join(list(found.devices)[:8]), uverbs="none")
        yield warn(f"{len(found.devices)} RDMA devices, and no /dev/infiniband/uverbs", words, fix, evidence=shown)


@reading(network_schemas.rdma, "ask rdma")
def state(found: Rdma, facts: Facts) -> Iterator[Finding]:
    """No RDMA port is down whose peers are up, or has a cable and no subnet manager."""
    ports = _ports(found)
    if not ports:
        yield skip("this system has no RDMA device")
    elif all(port.state is None for port in ports.values()):
        yield unknown("no port says its state")
    elif half := [name for name, port in ports.items() if port.state == "INIT" and port.physical == "LinkUp"]:
        words = "Start a subnet manager on switch or host: the cable is in, and nobody gives the port its address."
        yield warn(f"{_names(half)} waits for a subnet manager", words, "ibstat", evidence=_state(ports, half[0]))
    elif odd := _odd(found):
        words = "Look at cable, transceiver and switch port, or leave it out with NCCL_IB_HCA."
        yield warn(f"{_names(odd)} is not active, and its peers are", words, "ibstat", evidence=_state(ports, odd[0]))
    elif up := [name for name, port in ports.items() if port.state == "ACTIVE"]:
        yield ok(f"{len(up)} of {len(ports)} ports are active")
    elif nodes_wanted(facts) > 1:
        words = "Bring one up, or expect the speed of TCP."
        yield warn("no RDMA port is active", words, "ibstat", evidence=_state(ports, next(iter(ports))))
    else:
        yield skip("no RDMA port is in use")


def named(facts: Facts) -> Iterator[Finding]:
    """The RDMA devices that NCCL_IB_HCA and FLAGCX_IB_HCA name are there, and active."""
    found = network_schemas.rdma(facts)
    if facts.environment is None:
        yield not_told(facts, "ask environment")
        return
    said = {name: facts.environment[name] for name in HCAS if facts.environment.get(name)}
    if not said:
        yield skip(f"neither {' nor '.join(HCAS)} is set")
        return
    if found is None:
        yield not_told(facts, "ask rdma")
        return
    for name, value in said.items():
        ports = chosen(found, value)
        down = [one for one, port in ports.items() if port.state not in ("ACTIVE", None)]
        if len(down) == len(ports):
            yield _useless(found, f"{name}={value[:80]}", down)
            return
    yield ok(", ".join(f"{name}={value[:80]}" for name, value in said.items()))


def _useless(found: Rdma, said: str, down: list[tuple[str, int]]) -> Finding:
    shown = (f"environment: {said}", *_state(_ports(found), *down[:1]))
    if down:
        words = "Bring it up, or name one that is active."
        return fail(f"{said}: {_names(down)} is not active", words, "ibstat", evidence=shown)
    words = "Name a device of this host; without one, FLAGCX_USE_HOST_COMM=1 goes over TCP."
    return fail(f"{said}: there is no such device", words, "ibv_devices", evidence=shown)


@reading(network_schemas.rdma, "ask rdma")
def gids(found: Rdma, facts: Facts) -> Iterator[Finding]:
    """Active RDMA ports have an address (GID), and one where NCCL_IB_GID_INDEX points."""
    environment = facts.environment or {}
    ports = {n: p for n, p in chosen(found, environment.get(HCAS[0], "")).items() if p.state == "ACTIVE"}
    index = environment.get(GID, "")
    words = "Give the port's network interface an address, or name another index or device."
    if not ports:
        yield skip("no active RDMA port is there")
    elif bare := [name for name, port in ports.items() if not port.gids]:
        shown = figures("/sys/class/infiniband", **{f"{bare[0][0]} port {bare[0][1]}": "no GID"})
        yield warn(f"{_names(bare)} has no address", words, "show_gids", evidence=shown)
    elif not index:
        yield ok(f"{len(ports)} active ports have addresses")
    elif not re.fullmatch(r"-?\d{1,3}", index) or int(index) >= GIDS_READ:
        yield unknown(f"{GID}={index[:20]}: envcheck reads the first {GIDS_READ}", "Look at the table.", "show_gids")
    elif lost := [name for name, port in ports.items() if int(index) >= 0 and int(index) not in port.gids]:
        has = ", ".join(f"{n} {kind}".strip() for n, kind in ports[lost[0]].gids.items())
        shown = (f"environment: {GID}={index}", *figures(_names(lost[:1]), gids=has))
        yield fail(f"{GID}={index}: {_names(lost)} has no address there", words, "show_gids", evidence=shown)
    else:
        yield ok(f"{len(ports)} active ports have addresses, also at {GID}={index}")


def chosen(found: Rdma, value: str) -> Ports:
    """NCCL's rules: device[:port] with commas between, by prefix; = for exact names, ^ for all but these."""
    without, exact, text = value.startswith("^"), "=" in value[:2], value.lstrip("^=")
    wanted = [(name, port) for name, _, port in (part.strip().partition(":") for part in text.split(",")) if name]

    def is_named(device: str, number: int) -> bool:
        return any(
            (device == name if exact else device.startswith(name)) and port in ("", str(number))
            for name, port in wanted
        )

    every = _ports(found)
    return {key: port for key, port in every.items() if not wanted or is_named(*key) is not without}


def _ports(found: Rdma) -> Ports:
    return {(name, n): port for name, (_, ports) in found.devices.items() for n, port in ports.items()}


def _odd(found: Rdma) -> list[tuple[str, int]]:
    """Ports that are not active, where more than half of those of their device's kind and number are."""
    kinds = {(name, n): (kind, n, p.layer) for name, (kind, ports) in found.devices.items() for n, p in ports.items()}
    ports, every = _ports(found), Counter(kinds.values())
    active = Counter(kinds[key] for key, port in ports.items() if port.state == "ACTIVE")
    return [key for key, port in ports.items() if port.state != "ACTIVE" and 2 * active[kinds[key]] > every[kinds[key]]]


def _names(keys: list[tuple[str, int]]) -> str:
    return ", ".join(f"{name} port {n}" for name, n in keys[:4])


def _state(ports: Ports, *keys: tuple[str, int]) -> tuple[str, ...]:
    return tuple(
        line
        for key in keys
        for line in figures(_names([key]), state=ports[key].state, physical=ports[key].physical, layer=ports[key].layer)
    )


CHECKS: tuple[Check, ...] = (
    of_machine(
        "network.rdma",
        nodes,
        reads="/sys/class/infiniband, /dev/infiniband",
        source="NVIDIA/nccl#952",
        rule="WARN when the kernel has RDMA devices and none can be opened, where cards are",
        fix="--device /dev/infiniband, or ib_uverbs.",
    ),
    of_machine(
        "network.rdma_state",
        state,
        reads="state of each RDMA port",
        source="NVIDIA/nccl-tests#185; InfiniBand's port states",
        rule="WARN for a port that most of its kind leave behind, or that has a link and waits for a subnet manager, "
        "and, with several nodes wanted, when none is active",
        fix="Cable, switch, subnet manager; or leave it out.",
    ),
    of_machine(
        "network.rdma_named",
        named,
        reads="NCCL_IB_HCA, FLAGCX_IB_HCA, the RDMA devices",
        source="FlagCX#104, NVIDIA/nccl-tests#185",
        rule="FAIL when what is named is not there, or none of it is active",
        fix="A device of this host.",
    ),
    of_machine(
        "network.rdma_address",
        gids,
        reads="GIDs of active RDMA ports, NCCL_IB_GID_INDEX",
        source="NVIDIA/nccl-tests#185",
        rule="FAIL when an active port has no GID at the index that is set; WARN when it has none at all",
        fix="An address for its interface, or another index.",
    ),
)
