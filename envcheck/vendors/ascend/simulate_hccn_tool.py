"""hccn_tool: the network port of each Ascend device, by its physical id."""

from __future__ import annotations

from envcheck.core.simulate.machine import Chip, Machine
from envcheck.core.simulate.reply import Program, Reply

_USAGE = Reply("Usage: hccn_tool -i <device id> -<link|ip|net_health|gateway> -g\n", status=1)


def address(chip: Chip) -> str:
    """One address for each device, all in one network: what the vendor asks for on A2 and later."""
    return f"192.168.100.{100 + chip.index}"


def program(machine: Machine) -> Program:
    replies = {
        f"-i {chip.index} -{what} -g": Reply(text) for chip in machine.listed for what, text in _texts(machine, chip)
    }
    return Program("hccn_tool", replies, (("", _USAGE),))


_TLS_REST = "tls preconfigured[1](0:non-preset, 1:preset), tls alarm time threshold[60]days"


def _tls(machine: Machine, chip: Chip) -> int:
    """Off everywhere; a fault puts it on at the first card."""
    return int(machine.is_amiss("tls-uneven") and chip.index == machine.listed[0].index)


def _texts(machine: Machine, chip: Chip) -> list[tuple[str, str]]:
    return [
        ("link", f"link status: {'UP' if chip.link_up else 'DOWN'}\n"),
        ("ip", f"ipaddr:{address(chip)}\nnetmask:255.255.255.0\n"),
        ("net_health", f"net health status: {'Success' if chip.link_up else 'Fault'}\n"),
        ("tls", f"dev_id:{chip.index}, tls switch[{_tls(machine, chip)}](0:disable, 1:enable), {_TLS_REST}\n"),
        ("gateway", "default gateway:192.168.100.1, Iface:eth0\n"),
    ]


def configuration(machine: Machine) -> str:
    """/etc/hccn.conf, which agrees with the ports."""
    lines = [
        line
        for chip in machine.chips
        for line in (
            f"address_{chip.index}={address(chip)}",
            f"netmask_{chip.index}=255.255.255.0",
            f"gateway_{chip.index}=192.168.100.1",
            f"netdetect_{chip.index}=192.168.100.1",
            f"send_arp_status_{chip.index}=1",
        )
    ]
    return "\n".join(lines) + "\n"
