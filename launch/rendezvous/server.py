"""Node 0 of a meeting: it listens, asks, gathers, and tells everybody one word."""

from __future__ import annotations

import contextlib
import json
import selectors
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from envcheck.core.model import Finding, Remedy, Status
from launch.rendezvous.hello import LIMIT, Hello, unpacked
from launch.rendezvous.judge import judge, ranks
from launch.rendezvous.result import ASK, HANG_UP_S, SAY_EVERY_S, RendezvousResult, Say

LATE_S = 2.0  # in which nodes that were started together with a wrong one still find the door open
GUESTS = 4096  # connections at once; strangers are dropped as soon as they speak


@dataclass
class JoinedNode:
    """A connection to node 0: what it said so far, and when it was asked."""

    socket: socket.socket
    asked: float
    said: bytes = b""
    greeting: Hello | None = None


class RendezvousServer:
    """Node 0."""

    def __init__(self, own: Hello, port: int, deadline: float, limit_s: float, say: Say) -> None:
        self.own, self.deadline, self.limit_s, self.say = own, deadline, limit_s, say
        family = socket.AF_INET6 if ":" in own.address else socket.AF_INET
        self.door = socket.create_server(("", port), family=family, backlog=GUESTS)
        self.guests: list[JoinedNode] = []
        self.wrong: float | None = None
        self.wait = selectors.DefaultSelector()
        self.wait.register(self.door, selectors.EVENT_READ)

    def gather(self) -> RendezvousResult:
        with contextlib.closing(self.door), contextlib.closing(self.wait):
            told = 0.0
            while not self._complete() and (left := self.deadline - time.monotonic()) > 0:
                if time.monotonic() - told > SAY_EVERY_S:
                    told = time.monotonic()
                    self.say(self._waiting())
                for key, _ in self.wait.select(min(left, 0.5)):
                    self._hear(key.data) if key.data else self._enter()
            met = self._numbered()
            findings = judge(met) if self._judged() else (self._missing(),)
            self._tell(met, findings)
        return RendezvousResult(0, met, findings)

    @property
    def here(self) -> list[Hello]:
        return [self.own, *(g.greeting for g in self.guests if g.greeting)]

    def _complete(self) -> bool:
        """All are there, or something is wrong already that no further node mends: who comes right then hears so."""
        if len(self.here) >= self.own.nodes:
            return True
        if ranks(self.here).status is not Status.FAIL:
            self.wrong = None
            return False
        self.wrong = self.wrong or time.monotonic()
        return time.monotonic() - self.wrong > LATE_S

    def _judged(self) -> bool:
        return len(self.here) >= self.own.nodes or ranks(self.here).status is Status.FAIL

    def _enter(self) -> None:
        with contextlib.suppress(OSError):
            guest, _ = self.door.accept()
            if len(self.guests) >= GUESTS:
                guest.close()
                return
            guest.setblocking(False)
            guest.send(ASK)
            self.guests.append(JoinedNode(guest, time.time()))
            self.wait.register(guest, selectors.EVENT_READ, self.guests[-1])

    def _hear(self, guest: JoinedNode) -> None:
        try:
            piece = guest.socket.recv(64 << 10)
        except BlockingIOError:
            return
        except OSError:
            piece = b""
        guest.said += piece
        if not piece or guest.greeting or len(guest.said) > LIMIT:
            self._drop(guest)  # hung up, a second word, or no greeting of ours
        elif b"\n" in guest.said:
            self._greet(guest)

    def _greet(self, guest: JoinedNode) -> None:
        found = unpacked(guest.said.partition(b"\n")[0])
        if found is None:
            self._drop(guest)
            return
        middle = (guest.asked + time.time()) / 2
        address = guest.socket.getpeername()[0]
        guest.greeting = replace(found, address=found.address or address, skew_s=found.now - middle)
        self.say(f"{guest.greeting.title} is here")

    def _drop(self, guest: JoinedNode) -> None:
        self.wait.unregister(guest.socket)
        guest.socket.close()
        self.guests.remove(guest)

    def _numbered(self) -> tuple[Hello, ...]:
        """Who has no rank gets a free one, in the order of the addresses: the same at every start."""
        taken = {g.rank for g in self.here}
        free = iter([rank for rank in range(self.own.nodes) if rank not in taken])
        for guest in sorted(self.guests, key=lambda g: _order(g.greeting.address if g.greeting else "")):
            if guest.greeting and guest.greeting.rank is None:
                guest.greeting = replace(guest.greeting, rank=next(free, None))
        return tuple(sorted(self.here, key=lambda g: -1 if g.rank is None else g.rank))

    def _waiting(self) -> str:
        return f"waiting for {self.own.nodes - len(self.here)} of {self.own.nodes} nodes{self._which()}"

    def _which(self) -> str:
        known = {g.rank for g in self.here}
        missing = [str(rank) for rank in range(self.own.nodes) if rank not in known]
        return f": rank {', '.join(missing)}" if None not in known and len(missing) < 20 else ""

    def _missing(self) -> Finding:
        came = ", ".join(g.title for g in self.here)
        words = (
            "Start envcheck train on the missing nodes with the same --master and port, look whether a firewall closes "
            "the port, and give more time by --gather."
        )
        lack = f"{len(self.here)} of {self.own.nodes} nodes came within {self.limit_s:g} s{self._which()} missing"
        return Finding("nodes.present", Status.FAIL, lack, Remedy(words), (f"here: {came}",))

    def _tell(self, met: Sequence[Hello], findings: Sequence[Finding]) -> None:
        """The verdict; then until they have hung up, or for a while."""
        bad = [_values(f) for f in findings if f.status is not Status.OK]
        for guest in self.guests:
            rank = guest.greeting.rank if guest.greeting else None
            word = {"envcheck-node": "verdict", "rank": rank, "findings": bad, "nodes": len(met)}
            with contextlib.suppress(OSError):
                guest.socket.setblocking(True)
                guest.socket.settimeout(HANG_UP_S)
                guest.socket.sendall(json.dumps(word).encode() + b"\n")
        until = time.monotonic() + HANG_UP_S
        for guest in self.guests:
            with contextlib.suppress(OSError):
                guest.socket.settimeout(max(0.1, until - time.monotonic()))
                guest.socket.recv(1)
            guest.socket.close()


def _order(address: str) -> tuple[object, ...]:
    """Numbers by their value: 10.0.0.9 before 10.0.0.10."""
    return tuple(int(part) if part.isdigit() else -1 for part in address.replace(":", ".").split(".")), address


def _values(finding: Finding) -> dict[str, object]:
    remedy = finding.remedy.words if finding.remedy else ""
    return {
        "name": finding.name,
        "status": finding.status.name,
        "seen": finding.seen,
        "words": remedy,
        "evidence": list(finding.evidence),
    }
