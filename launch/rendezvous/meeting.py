"""The meeting itself, on the port that the launcher opens afterwards: so it is proved to be open, too.

Node 0 listens and asks; each other node answers with its greeting and then waits.  Node 0 tells all of them one word:
go with this rank, or no and why.  JSON documents of one line each; the others hang up first, so that the port is free.
"""

from __future__ import annotations

import time
from dataclasses import replace

from launch.rendezvous.client import join
from launch.rendezvous.hello import Hello
from launch.rendezvous.result import RendezvousResult, Say, alone, failed
from launch.rendezvous.server import RendezvousServer


def meet(own: Hello, master: str, port: int, limit_s: float, say: Say, leads: bool) -> RendezvousResult:
    """`leads`: this is node 0.  Whatever goes wrong is a finding; nothing waits longer than `limit_s`."""
    deadline = time.monotonic() + limit_s
    if not leads:
        return join(own, master, port, deadline, limit_s, say)
    try:
        return RendezvousServer(replace(own, rank=0), port, deadline, limit_s, say).gather()
    except OSError as err:
        words = f"the port {port} cannot be opened: {(err.strerror or str(err)).lower()}"
        return alone(own, failed("nodes.port", words, "Choose another with --port, or end who holds it: ss -ltnp"))
