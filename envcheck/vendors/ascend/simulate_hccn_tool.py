"""hccn_tool: the network port of each Ascend device, by its physical id."""

from __future__ import annotations

from envcheck.core.simulate.machine import SimulatedChip, SimulatedSystem
from envcheck.core.simulate.reply import ProgramReply, SimulatedProgram

_USAGE = ProgramReply("Usage: hccn_tool -i <device id> -<link|ip|net_health|gateway> -g\n", status=1)


def port_address(chip: SimulatedChip) -> str:
    """Return the port's address: one per device, all in one network, as A2 and later require."""
    return f"192.168.100.{100 + chip.index}"


def make_hccn_tool(machine: SimulatedSystem) -> SimulatedProgram:
    """Return the executable with its answers for each device."""
    replies = {
        f"-i {chip.index} -{what} -g": ProgramReply(text)
        for chip in machine.listed_chips
        for what, text in _port_answers(machine, chip)
    }
    return SimulatedProgram("hccn_tool", replies, (("", _USAGE),))


_TLS_REST = "tls preconfigured[1](0:non-preset, 1:preset), tls alarm time threshold[60]days"


def _tls_state(machine: SimulatedSystem, chip: SimulatedChip) -> int:
    """Return 0 (off) everywhere; with the fault, 1 at the first card."""
    return int(machine.has_fault("tls-uneven") and chip.index == machine.listed_chips[0].index)


def _port_answers(machine: SimulatedSystem, chip: SimulatedChip) -> list[tuple[str, str]]:
    return [
        ("link", f"link status: {'UP' if chip.link_up else 'DOWN'}\n"),
        ("ip", f"ipaddr:{port_address(chip)}\nnetmask:255.255.255.0\n"),
        ("net_health", f"net health status: {'Success' if chip.link_up else 'Fault'}\n"),
        ("tls", f"dev_id:{chip.index}, tls switch[{_tls_state(machine, chip)}](0:disable, 1:enable), {_TLS_REST}\n"),
        ("gateway", "default gateway:192.168.100.1, Iface:eth0\n"),
    ]


def render_hccn_conf(machine: SimulatedSystem) -> str:
    """Return /etc/hccn.conf, with the same addresses as the ports."""
    lines = [
        line
        for chip in machine.chips
        for line in (
            f"address_{chip.index}={port_address(chip)}",
            f"netmask_{chip.index}=255.255.255.0",
            f"gateway_{chip.index}=192.168.100.1",
            f"netdetect_{chip.index}=192.168.100.1",
            f"send_arp_status_{chip.index}=1",
        )
    ]
    return "\n".join(lines) + "\n"
