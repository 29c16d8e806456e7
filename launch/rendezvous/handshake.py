"""Run the rendezvous on the port that the launcher uses afterwards, which also verifies that the port is reachable.

Node 0 listens. To each connection it sends a question; the other node replies with its facts and waits. When all nodes
have joined, node 0 sends each of them its rank and the findings. Messages are JSON objects, one per line. The other
nodes close their connections first, so that the port of node 0 has no connection in TIME_WAIT.
"""

from __future__ import annotations

import time
from dataclasses import replace

from envcheck.core.errors import describe_os_error
from envcheck.core.messages import _
from launch.rendezvous.client import join_rendezvous
from launch.rendezvous.hello import Hello
from launch.rendezvous.result import RendezvousResult, Say, build_failure, build_lone_result
from launch.rendezvous.server import RendezvousServer


def run_rendezvous(own: Hello, master: str, port: int, limit_s: float, say: Say, leads: bool) -> RendezvousResult:
    """Run the rendezvous, as node 0 if it `leads`. Errors become findings, after `limit_s` at the latest."""
    deadline = time.monotonic() + limit_s
    if not leads:
        return join_rendezvous(own, master, port, deadline, limit_s, say)
    try:
        return RendezvousServer(replace(own, rank=0), port, deadline, limit_s, say).gather_nodes()
    except OSError as err:
        seen = _("cannot open port {port}: {reason}", port=port, reason=describe_os_error(err))
        words = _("Choose another port with --port, or stop the process that uses it (ss -ltnp).")
        return build_lone_result(own, build_failure("nodes.port", seen, words))
