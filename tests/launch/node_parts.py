"""Two simulated nodes: network namespaces with their own addresses, names and /etc/hosts, connected by a veth pair."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

NAMES = ("a", "b")
COLLECTIVES = "60000-60031"  # HCCL's: no connection of ours, nor its TIME_WAIT, is to hold one when its gate looks


class NetworkNode:
    """A namespace; processes in it have the node's host name and only its network."""

    def __init__(self, name: str, number: int) -> None:
        self.space, self.name = f"envcheck-{os.getpid()}-{name}", f"node-{name}"
        self.address = f"10.77.0.{number + 1}"

    def make_argv(self, *words: str) -> list[str]:
        named = ("unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"', self.name)
        return ["ip", "netns", "exec", self.space, *named, *words]

    @property
    def etc_folder(self) -> Path:
        """Its files replace those of /etc for processes in it."""
        return Path("/etc/netns") / self.space

    def write_hosts(self, text: str) -> None:
        self.etc_folder.mkdir(parents=True, exist_ok=True)
        (self.etc_folder / "hosts").write_text(text)


def run_ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


def wait_for_link(node: NetworkNode) -> None:
    """Wait until the kernel reports that the veth pair is up."""
    for _ in range(100):
        told = subprocess.run(["ip", "-n", node.space, "link", "show", "eth0"], capture_output=True, text=True)
        if "state UP" in told.stdout:
            return
        time.sleep(0.1)


@pytest.fixture(scope="module")
def nodes() -> Iterator[tuple[NetworkNode, NetworkNode]]:
    """node-a (10.77.0.1) and node-b (10.77.0.2), which resolve each other's names."""
    if os.geteuid() or not shutil.which("ip") or not shutil.which("unshare"):
        pytest.skip("network namespaces want root, ip (iproute2) and unshare")
    made = (NetworkNode("a", 0), NetworkNode("b", 1))
    try:
        for node in made:
            run_ip("netns", "add", node.space)
            run_ip("-n", node.space, "link", "set", "lo", "up")
            run_ip("netns", "exec", node.space, "sysctl", "-qw", f"net.ipv4.ip_local_reserved_ports={COLLECTIVES}")
        run_ip("link", "add", "eth0", "netns", made[0].space, "type", "veth", "peer", "eth0", "netns", made[1].space)
        for node in made:
            run_ip("-n", node.space, "address", "add", f"{node.address}/24", "dev", "eth0")
            run_ip("-n", node.space, "link", "set", "eth0", "up")
        for node in made:
            wait_for_link(node)
            node.write_hosts("127.0.0.1 localhost\n" + "".join(f"{other.address} {other.name}\n" for other in made))
        yield made
    finally:
        for node in made:
            subprocess.run(["ip", "netns", "delete", node.space], check=False, capture_output=True)
            shutil.rmtree(node.etc_folder, ignore_errors=True)
