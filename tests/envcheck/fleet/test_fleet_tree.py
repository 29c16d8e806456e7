"""A fleet behind gateways: ClusterShell's tree mode collects the recordings, and envcheck judges them."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.envcheck.fleet import fleet_parts

pytestmark = pytest.mark.real

ROOT = Path(__file__).parents[3]


def test_recordings_come_through_a_gateway(tmp_path: Path) -> None:
    """As documented: only the gateway connects to the nodes, each node's recording is a file, and all are judged."""
    topology, fleet = tmp_path / "topology.conf", tmp_path / "recordings"
    topology.write_text(f"[routes]\n{socket.gethostname()}: node01\nnode01: node[02-03]\n")
    with fleet_parts.start_fleet(tmp_path / "fleet", 3, "atlas-800t-a2") as made:
        gateway, env = made.hosts[0], made.make_environment()
        gateway.stop_sshd()
        gateway.variables = {"PATH": env["PATH"], "HOME": env["HOME"]}  # the gateway has the same ssh configuration
        gateway.start_sshd(made.key)
        made.wait_for_sshd(gateway)
        command = f"cd {ROOT} && {sys.executable} -m envcheck snapshot -o - && echo $SSH_CONNECTION >&2"
        words = ["--topology", str(topology), "-w", "node[02-03]", "--outdir", str(fleet), command]
        clush = [sys.executable, "-m", "ClusterShell.CLI.Clush", *words]
        env["CLUSTERSHELL_GW_PYTHON_EXECUTABLE"] = sys.executable
        done = subprocess.run(clush, env=env, capture_output=True, text=True, timeout=300, check=False)
        for path in fleet.iterdir():
            path.rename(path.with_suffix(".json"))
        judged = made.run_envcheck("doctor", "--replay", str(fleet))
        own = gateway.address

    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in fleet.iterdir()) == ["node02.json", "node03.json"]
    assert done.stderr.count(f": {own} ") == 2, done.stderr
    assert judged.stdout.startswith("envcheck doctor on node[02-03]: 2 hosts, all responded"), judged
