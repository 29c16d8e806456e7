"""Hosts with RDMA devices, and tools that print recorded output of the real ones for their options."""

from __future__ import annotations

import sys
from pathlib import Path

from envcheck.core.model import Status
from envcheck.fleet.peers import host_findings
from envcheck.fleet.peers.host_tests import PeerObservations
from tests.envcheck.fleet.fleet_parts import SshHost

Told = list[tuple[Status, str, tuple[str, ...]]]
DATA = Path(__file__).parents[2] / "data" / "rdma"
ALL = ("ib_write_bw", "ib_send_lat", "ib_read_lat", "ibv_rc_pingpong", "rping")

# Both sides really meet, at the port and by the protocol (TCP; UDP for rping, whose ports are not TCP's).  FAULTS: what
# the calling side on this host does for a device, or for all: "lost", "hang", "denied"; or a rate in Gb/sec.
STAND_IN = """#!{python}
import getopt, os, socket, sys, time, tomllib
from pathlib import Path
data, name, faults = Path({data!r}), os.path.basename(sys.argv[0]), {faults!r}
table = tomllib.loads((data / "options.toml").read_text())[name]
letters = lambda kind, end: "".join(o[1] + end for o in table[kind] if o[1] != "-")
words = lambda kind, end: [o[2:] + end for o in table[kind] if o[:2] == "--"]
try:
    given, rest = getopt.getopt(
        sys.argv[1:], letters("with_value", ":") + letters("alone", ""), words("with_value", "=") + words("alone", "")
    )
except getopt.GetoptError as err:
    sys.exit(f"{{name}}: unrecognized option: {{err}}")
given = dict(given)
port, device = int(given.get("-p", 18515)), given.get("-d", "")
fault = faults.get(device) or faults.get("all", "")
kind = socket.SOCK_DGRAM if name == "rping" else socket.SOCK_STREAM
if fault == "denied":
    sys.exit("Couldn't get context for " + device)
answer = b"lost" if fault == "lost" else b"well"
if not rest and "-c" not in given:
    one = socket.socket(socket.AF_INET, kind)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    one.bind(("", port))
    if kind == socket.SOCK_DGRAM:
        said, peer = one.recvfrom(100)
        one.sendto(answer, peer)
    else:
        one.listen(1)
        peer, _ = one.accept()
        said = peer.recv(100)
        peer.sendall(answer)
        peer.recv(1)
    if b"well" not in (said, answer):
        time.sleep(100)
    print((data / f"{{name}}.server.txt").read_text(), end="")
else:
    one = socket.socket(socket.AF_INET, kind)
    one.settimeout(5)
    try:
        one.connect((rest[0] if rest else given["-a"], port))
        one.sendall(fault.encode() if fault in ("lost", "hang") else b"well")
        fault = "lost" if one.recv(10) == b"lost" else fault
    except OSError:
        sys.exit(f"Couldn't connect to {{rest[0] if rest else given['-a']}}:{{port}}")
    if fault == "hang":
        time.sleep(100)
    text = (data / ("lost.txt" if fault == "lost" else f"{{name}}.client.txt")).read_text()
    print(text.replace("0.044648", fault) if fault != "lost" and fault else text, end="")
    sys.exit(fault == "lost")
"""


def install_tools(host: SshHost, tools: tuple[str, ...] = ("ib_write_bw",), **faults: str) -> None:
    for name in ALL:
        (host.bin / name).unlink(missing_ok=True)
    for name in tools:
        host.write_tool(name, STAND_IN.format(python=sys.executable, data=str(DATA), faults=faults))


def write_rdma_devices(host: SshHost, *names: str, layer: str = "InfiniBand", state: str = "4: ACTIVE") -> None:
    """Write what the kernel shows below /sys/class/infiniband; for RoCE the address 10.9.0.N in two GIDs."""
    root = host.folder / "class" / "infiniband"
    for name in names:
        port = root / name / "ports" / "1"
        for folder in ("gids", "gid_attrs/types"):
            (port / folder).mkdir(parents=True, exist_ok=True)
        told = {"state": state, "link_layer": layer, "rate": "100 Gb/sec (4X EDR)"}
        plain, mapped = (
            "fe80:0000:0000:0000:5054:00ff:fe00:0201",
            f"0000:0000:0000:0000:0000:ffff:{_format_hex(host.address)}",
        )
        kinds = {0: ("IB/RoCE v1", plain)} | (
            {1: ("RoCE v2", plain), 2: ("IB/RoCE v1", mapped), 3: ("RoCE v2", mapped)} if layer == "Ethernet" else {}
        )
        for number, (kind, gid) in kinds.items():
            told |= {f"gids/{number}": gid, f"gid_attrs/types/{number}": kind}
        (root / name / "node_type").write_text("1: CA\n")
        for path, text in told.items():
            (port / path).write_text(f"{text}\n")


def _format_hex(address: str) -> str:
    a, b, c, d = (int(part) for part in address.split("."))
    return f"{a:02x}{b:02x}:{c:02x}{d:02x}"


def summarize_findings(seen: PeerObservations) -> Told:
    """Return status, message, and hosts of each finding."""
    found = [one for one in host_findings.list_findings(seen) if one.finding.name == "fleet.rdma"]
    return [(one.finding.status, one.finding.seen, one.hosts) for one in found]
