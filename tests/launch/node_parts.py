"""Two machines in one: network namespaces with addresses, names and /etc/hosts of their own, a cable between them."""

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


class Node:
    """A namespace; what runs in it has the node's own name and sees no other network."""

    def __init__(self, name: str, number: int) -> None:
        self.space, self.name = f"envcheck-{os.getpid()}-{name}", f"node-{name}"
        self.address = f"10.77.0.{number + 1}"

    def argv(self, *words: str) -> list[str]:
        named = ("unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"', self.name)
        return ["ip", "netns", "exec", self.space, *named, *words]

    @property
    def etc(self) -> Path:
        """Its files lie over those of /etc for what runs in it."""
        return Path("/etc/netns") / self.space

    def hosts(self, text: str) -> None:
        self.etc.mkdir(parents=True, exist_ok=True)
        (self.etc / "hosts").write_text(text)


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


def up(node: Node) -> None:
    """The kernel tells a moment later that a cable with two ends is one."""
    for _ in range(100):
        told = subprocess.run(["ip", "-n", node.space, "link", "show", "eth0"], capture_output=True, text=True)
        if "state UP" in told.stdout:
            return
        time.sleep(0.1)


@pytest.fixture(scope="module")
def nodes() -> Iterator[tuple[Node, Node]]:
    """node-a (10.77.0.1) and node-b (10.77.0.2), which know each other by name."""
    if os.geteuid() or not shutil.which("ip") or not shutil.which("unshare"):
        pytest.skip("network namespaces want root, ip (iproute2) and unshare")
    made = (Node("a", 0), Node("b", 1))
    try:
        for node in made:
            ip("netns", "add", node.space)
            ip("-n", node.space, "link", "set", "lo", "up")
            ip("netns", "exec", node.space, "sysctl", "-qw", f"net.ipv4.ip_local_reserved_ports={COLLECTIVES}")
        ip("link", "add", "eth0", "netns", made[0].space, "type", "veth", "peer", "eth0", "netns", made[1].space)
        for node in made:
            ip("-n", node.space, "address", "add", f"{node.address}/24", "dev", "eth0")
            ip("-n", node.space, "link", "set", "eth0", "up")
        for node in made:
            up(node)
            node.hosts("127.0.0.1 localhost\n" + "".join(f"{other.address} {other.name}\n" for other in made))
        yield made
    finally:
        for node in made:
            subprocess.run(["ip", "netns", "delete", node.space], check=False, capture_output=True)
            shutil.rmtree(node.etc, ignore_errors=True)
