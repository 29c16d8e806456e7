"""Checks of RDMA: device nodes, port states, and the variables that select devices and addresses."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from envcheck.core.check import Check, machine_check
from envcheck.core.facts import Facts
from envcheck.core.findings import (
    count_requested_nodes,
    fail,
    is_in_container,
    ok,
    quote_values,
    report_unanswered,
    requires_fact,
    skip,
    unknown,
    warn,
)
from envcheck.core.messages import Message, _, join, mark
from envcheck.core.model import Finding, diagnose, fix
from probes.host import network_schemas
from probes.host.network_schemas import RdmaDevices, RdmaPortState

HCAS = ("NCCL_IB_HCA", "FLAGCX_IB_HCA")
GID = "NCCL_IB_GID_INDEX"
GIDS_READ = 16  # probes/host/rdma.py reads no more
Ports = dict[tuple[str, int], RdmaPortState]


@requires_fact(network_schemas.read_rdma, "ask rdma")
def check_device_nodes(found: RdmaDevices, facts: Facts) -> Iterator[Finding]:
    """If the kernel has RDMA devices, programs can open them; otherwise NCCL silently uses TCP."""
    if not found.devices:
        yield skip(_("no RDMA device found"))
    elif found.verbs:
        yield ok(
            _(
                "{devices}, with {verbs_count} verbs device nodes",
                devices=join(", ", list(found.devices)[:8]),
                verbs_count=len(found.verbs),
            )
        )
    elif not facts.vendors:
        yield skip(_("no accelerator found"))
    else:
        inside = is_in_container(facts)
        words = (
            _("Recreate the container with the RDMA device nodes.")
            if inside
            else _("Load the kernel module that creates the device nodes.")
        )
        commands = "docker run --device /dev/infiniband --ulimit memlock=-1" if inside else "sudo modprobe ib_uverbs"
        shown = quote_values("/sys/class/infiniband", devices=", ".join(list(found.devices)[:8]), uverbs="none")
        yield warn(
            _("{devices_count} RDMA devices found, but no /dev/infiniband/uverbs", devices_count=len(found.devices)),
            fix(words, commands),
            evidence=shown,
        )


@requires_fact(network_schemas.read_rdma, "ask rdma")
def check_port_state(found: RdmaDevices, facts: Facts) -> Iterator[Finding]:
    """No RDMA port is down while its peers are up, and none waits for a subnet manager."""
    ports = _flatten_ports(found)
    if not ports:
        yield skip(_("no RDMA device found"))
    elif all(port.state is None for port in ports.values()):
        yield unknown(_("no RDMA port reports its state"))
    elif half := [name for name, port in ports.items() if port.state == "INIT" and port.physical == "LinkUp"]:
        words = _(
            "Start a subnet manager on the switch or a host: the cable is connected, but "
            "nothing assigns the port its address."
        )
        yield warn(
            _("{half} waits for a subnet manager", half=_format_ports(half)),
            diagnose(words, "ibstat"),
            evidence=_quote_port_state(ports, half[0]),
        )
    elif odd := _find_inactive_outliers(found):
        words = _(
            "Check the cable, the transceiver and the switch port, or exclude the port with {variable}.",
            variable=join(_(" or "), _list_variables(facts)),
        )
        yield warn(
            _("{odd} is not active, but its peers are", odd=_format_ports(odd)),
            diagnose(words, "ibstat"),
            evidence=_quote_port_state(ports, odd[0]),
        )
    elif up := [name for name, port in ports.items() if port.state == "ACTIVE"]:
        yield ok(_("{up_count} of {ports_count} ports are active", up_count=len(up), ports_count=len(ports)))
    elif count_requested_nodes(facts) > 1:
        words = _("Bring an RDMA port up; without one, traffic uses TCP.")
        yield warn(
            _("no RDMA port is active"), diagnose(words, "ibstat"), evidence=_quote_port_state(ports, next(iter(ports)))
        )
    else:
        yield skip(_("no RDMA port is in use"))


def check_named_devices(facts: Facts) -> Iterator[Finding]:
    """The RDMA devices in NCCL_IB_HCA and FLAGCX_IB_HCA exist and are active."""
    found = network_schemas.read_rdma(facts)
    if facts.environment is None:
        yield report_unanswered(facts, "ask environment")
        return
    selected = {name: facts.environment[name] for name in HCAS if facts.environment.get(name)}
    if not selected:
        yield skip(_("none of these variables is set: {variables}", variables=join(", ", HCAS)))
        return
    if found is None:
        yield report_unanswered(facts, "ask rdma")
        return
    for name, value in selected.items():
        ports = select_ports(found, value)
        down = [one for one, port in ports.items() if port.state not in ("ACTIVE", None)]
        if len(down) == len(ports):
            yield _unusable_device_finding(found, f"{name}={value[:80]}", down)
            return
    yield ok(join(", ", (f"{name}={value[:80]}" for name, value in selected.items())))


def _unusable_device_finding(found: RdmaDevices, variable: str, down: list[tuple[str, int]]) -> Finding:
    shown = (f"environment: {variable}", *_quote_port_state(_flatten_ports(found), *down[:1]))
    if down:
        words = _("Bring this port up, or select an active one.")
        return fail(
            _("{variable}: {down} is not active", variable=variable, down=_format_ports(down)),
            diagnose(words, "ibstat"),
            evidence=shown,
        )
    words = _("Select an RDMA device of this host. Without one, FLAGCX_USE_HOST_COMM=1 uses TCP.")
    return fail(_("{variable}: no such RDMA device", variable=variable), diagnose(words, "ibv_devices"), evidence=shown)


@requires_fact(network_schemas.read_rdma, "ask rdma")
def check_gids(found: RdmaDevices, facts: Facts) -> Iterator[Finding]:
    """Active RDMA ports have an address (GID), also at NCCL_IB_GID_INDEX."""
    environment = facts.environment or {}
    ports = {n: p for n, p in select_ports(found, environment.get(HCAS[0], "")).items() if p.state == "ACTIVE"}
    index = environment.get(GID, "")
    words = _("Give the port's network interface an address, or select another GID index or device.")
    if not ports:
        yield skip(_("no active RDMA port"))
    elif bare := [name for name, port in ports.items() if not port.gids]:
        shown = quote_values("/sys/class/infiniband", **{f"{bare[0][0]} port {bare[0][1]}": "no GID"})
        yield warn(_("{bare} has no address", bare=_format_ports(bare)), diagnose(words, "show_gids"), evidence=shown)
    elif not index:
        yield ok(_("{ports_count} active ports have addresses", ports_count=len(ports)))
    elif not re.fullmatch(r"-?\d{1,3}", index) or int(index) >= GIDS_READ:
        yield unknown(
            _(
                "{gid}={index}: envcheck reads only the first {gids_read} entries",
                gid=GID,
                index=index[:20],
                gids_read=GIDS_READ,
            ),
            diagnose(_("Check the GID table."), "show_gids"),
        )
    elif lost := [name for name, port in ports.items() if int(index) >= 0 and int(index) not in port.gids]:
        has = ", ".join(f"{n} {kind}".strip() for n, kind in ports[lost[0]].gids.items())
        shown = (f"environment: {GID}={index}", *quote_values(_format_ports(lost[:1]), gids=has))
        yield fail(
            _("{gid}={index}: {lost} has no address at this index", gid=GID, index=index, lost=_format_ports(lost)),
            diagnose(words, "show_gids"),
            evidence=shown,
        )
    else:
        yield ok(
            _(
                "{ports_count} active ports have addresses, also at {gid}={index}",
                ports_count=len(ports),
                gid=GID,
                index=index,
            )
        )


def select_ports(found: RdmaDevices, value: str) -> Ports:
    """Return the ports that a variable selects, by NCCL's rules.

    device[:port], separated by commas, matched by prefix; = for exact names, ^ for exclusions.
    """
    without, exact, text = value.startswith("^"), "=" in value[:2], value.lstrip("^=")
    wanted = [(name, port) for name, _unused, port in (part.strip().partition(":") for part in text.split(",")) if name]

    def is_named(device: str, number: int) -> bool:
        return any(
            (device == name if exact else device.startswith(name)) and port in ("", str(number))
            for name, port in wanted
        )

    every = _flatten_ports(found)
    return {key: port for key, port in every.items() if not wanted or is_named(*key) is not without}


def _list_variables(facts: Facts) -> tuple[str, ...]:
    """Return the variables that select RDMA ports, of the vendors found on the host."""
    return tuple(dict.fromkeys(v.vendor.rdma_variable for v in facts.vendors)) or HCAS[:1]


def _flatten_ports(found: RdmaDevices) -> Ports:
    return {(name, n): port for name, (_unused, ports) in found.devices.items() for n, port in ports.items()}


def _find_inactive_outliers(found: RdmaDevices) -> list[tuple[str, int]]:
    """Inactive ports, if more than half of the ports with the same device kind and number are active."""
    kinds = {(name, n): (kind, n, p.layer) for name, (kind, ports) in found.devices.items() for n, p in ports.items()}
    ports, every = _flatten_ports(found), Counter(kinds.values())
    active = Counter(kinds[key] for key, port in ports.items() if port.state == "ACTIVE")
    return [key for key, port in ports.items() if port.state != "ACTIVE" and 2 * active[kinds[key]] > every[kinds[key]]]


def _format_ports(keys: list[tuple[str, int]]) -> Message:
    return join(", ", [_("{name} port {n}", name=name, n=n) for name, n in keys[:4]])


def _quote_port_state(ports: Ports, *keys: tuple[str, int]) -> tuple[str, ...]:
    return tuple(
        line
        for key in keys
        for line in quote_values(
            _format_ports([key]), state=ports[key].state, physical=ports[key].physical, layer=ports[key].layer
        )
    )


CHECKS: tuple[Check, ...] = (
    machine_check(
        "network.rdma",
        check_device_nodes,
        reads="/sys/class/infiniband, /dev/infiniband",
        source="NVIDIA/nccl#952",
        rule="WARN if the kernel has RDMA devices but none can be opened, on a host with devices",
        fix="Pass --device /dev/infiniband, or load ib_uverbs.",
    ),
    machine_check(
        "network.rdma_state",
        check_port_state,
        reads="state of each RDMA port",
        source=mark("NVIDIA/nccl-tests#185; InfiniBand port states"),
        rule=(
            "WARN for a port that is down while most are up, for one that has a link but waits for a subnet manager, "
            "and, if the job needs several nodes, if none is active"
        ),
        fix="Check the cable, the switch and the subnet manager, or exclude the port.",
    ),
    machine_check(
        "network.rdma_named",
        check_named_devices,
        reads="NCCL_IB_HCA, FLAGCX_IB_HCA, the RDMA devices",
        source="FlagCX#104, NVIDIA/nccl-tests#185",
        rule="FAIL if a device does not exist, or none of them is active",
        fix="Set it to a device of this host.",
    ),
    machine_check(
        "network.rdma_address",
        check_gids,
        reads="GIDs of active RDMA ports, NCCL_IB_GID_INDEX",
        source="NVIDIA/nccl-tests#185",
        rule="FAIL if an active port has no GID at NCCL_IB_GID_INDEX; WARN if it has no GID",
        fix="Give its interface an address, or set another index.",
    ),
)
