"""The server of the rendezvous on node 0: collects the facts of all nodes and sends the verdict to each."""

from __future__ import annotations

import contextlib
import json
import selectors
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from envcheck.core.messages import NOTHING, Message, _, describe, join
from envcheck.core.model import Finding, Status, manual
from launch.rendezvous.hello import LIMIT, Hello, unpack_hello
from launch.rendezvous.judge import check_ranks, judge_nodes
from launch.rendezvous.result import ASK, HANG_UP_S, SAY_EVERY_S, RendezvousResult, Say

LATE_S = 2.0  # after a wrong rank, other nodes may still connect for this long, to get the finding too
MAX_CONNECTIONS = 4096  # other clients are dropped when they send anything else than a valid message


@dataclass
class JoinedNode:
    """A connection to node 0: when it was accepted (seconds since 1970), the bytes received, and the parsed facts."""

    socket: socket.socket
    accepted_at: float
    received: bytes = b""
    hello: Hello | None = None


class RendezvousServer:
    """Listens on the port of node 0 until all nodes have joined or `deadline` (time.monotonic) is reached.

    `limit_s` is the whole time limit, for messages; `say` is called with progress. The constructor raises OSError if
    the port cannot be opened.
    """

    def __init__(self, own: Hello, port: int, deadline: float, limit_s: float, say: Say) -> None:
        self.own, self.deadline, self.limit_s, self.say = own, deadline, limit_s, say
        family = socket.AF_INET6 if ":" in own.address else socket.AF_INET
        self.listener = socket.create_server(("", port), family=family, backlog=MAX_CONNECTIONS)
        self.connections: list[JoinedNode] = []
        self.wrong_since: float | None = None
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.listener, selectors.EVENT_READ)

    def gather_nodes(self) -> RendezvousResult:
        """Wait for the nodes, assign ranks, judge the nodes, and send the verdict to each; return it."""
        with contextlib.closing(self.listener), contextlib.closing(self.selector):
            reported_at = 0.0
            while not self._is_complete() and (left := self.deadline - time.monotonic()) > 0:
                if time.monotonic() - reported_at > SAY_EVERY_S:
                    reported_at = time.monotonic()
                    self.say(self._describe_waiting())
                for key, _unused in self.selector.select(min(left, 0.5)):
                    self._receive_data(key.data) if key.data else self._accept_connection()
            nodes = self._assign_ranks()
            findings = judge_nodes(nodes) if self._can_judge() else (self._build_missing_finding(),)
            self._send_verdict(nodes, findings)
        return RendezvousResult(0, nodes, findings)

    @property
    def joined_nodes(self) -> list[Hello]:
        """The facts of node 0 and of the nodes that have joined so far."""
        return [self.own, *(g.hello for g in self.connections if g.hello)]

    def _is_complete(self) -> bool:
        """Whether all nodes have joined, or ranks are wrong already and LATE_S has passed, in which further nodes could
        join to get the finding."""
        if len(self.joined_nodes) >= self.own.nodes:
            return True
        if check_ranks(self.joined_nodes).status is not Status.FAIL:
            self.wrong_since = None
            return False
        self.wrong_since = self.wrong_since or time.monotonic()
        return time.monotonic() - self.wrong_since > LATE_S

    def _can_judge(self) -> bool:
        return len(self.joined_nodes) >= self.own.nodes or check_ranks(self.joined_nodes).status is Status.FAIL

    def _accept_connection(self) -> None:
        with contextlib.suppress(OSError):
            node, _unused = self.listener.accept()
            if len(self.connections) >= MAX_CONNECTIONS:
                node.close()
                return
            node.setblocking(False)
            node.send(ASK)
            self.connections.append(JoinedNode(node, time.time()))
            self.selector.register(node, selectors.EVENT_READ, self.connections[-1])

    def _receive_data(self, node: JoinedNode) -> None:
        try:
            piece = node.socket.recv(64 << 10)
        except BlockingIOError:
            return
        except OSError:
            piece = b""
        node.received += piece
        if not piece or node.hello or len(node.received) > LIMIT:
            self._drop_connection(node)  # closed, a second message, or more than a message can have
        elif b"\n" in node.received:
            self._read_hello(node)

    def _read_hello(self, node: JoinedNode) -> None:
        found = unpack_hello(node.received.partition(b"\n")[0])
        if found is None:
            self._drop_connection(node)
            return
        middle = (node.accepted_at + time.time()) / 2
        address = node.socket.getpeername()[0]
        node.hello = replace(found, address=found.address or address, skew_s=found.now - middle)
        self.say(_("joined: {node}", node=node.hello.title))

    def _drop_connection(self, node: JoinedNode) -> None:
        self.selector.unregister(node.socket)
        node.socket.close()
        self.connections.remove(node)

    def _assign_ranks(self) -> tuple[Hello, ...]:
        """Assign free ranks to nodes without one in the order of their addresses: the same ranks at every start."""
        taken = {g.rank for g in self.joined_nodes}
        free = iter([rank for rank in range(self.own.nodes) if rank not in taken])
        for node in sorted(self.connections, key=lambda g: _address_order(g.hello.address if g.hello else "")):
            if node.hello and node.hello.rank is None:
                node.hello = replace(node.hello, rank=next(free, None))
        return tuple(sorted(self.joined_nodes, key=lambda g: -1 if g.rank is None else g.rank))

    def _describe_waiting(self) -> Message:
        missing, nodes = self.own.nodes - len(self.joined_nodes), self.own.nodes
        if ranks := self._list_missing_ranks():
            return _("waiting for {missing} of {nodes} nodes: rank {ranks}", missing=missing, nodes=nodes, ranks=ranks)
        return _("waiting for {missing} of {nodes} nodes", missing=missing, nodes=nodes)

    def _list_missing_ranks(self) -> str:
        """Return the missing ranks, "" if they are not known or too many to print."""
        known = {node.rank for node in self.joined_nodes}
        missing = [str(rank) for rank in range(self.own.nodes) if rank not in known]
        return join(", ", missing) if None not in known and len(missing) < 20 else ""

    def _build_missing_finding(self) -> Finding:
        remedy = _(
            "Start `envcheck train` on the missing nodes with the same --master and port, check that no firewall "
            "blocks the port, or allow more time with --gather."
        )
        counts = {"count": len(self.joined_nodes), "nodes": self.own.nodes, "limit_s": self.limit_s}
        seen = (
            _("only {count} of {nodes} nodes joined within {limit_s:g} s; missing: rank {ranks}", **counts, ranks=ranks)
            if (ranks := self._list_missing_ranks())
            else _("only {count} of {nodes} nodes joined within {limit_s:g} s", **counts)
        )
        joined = _("joined: {nodes}", nodes=join(", ", [node.title for node in self.joined_nodes]))
        return Finding("nodes.present", Status.FAIL, seen, manual(remedy), (joined,))

    def _send_verdict(self, nodes: Sequence[Hello], findings: Sequence[Finding]) -> None:
        """Send each node its rank and the findings, and wait up to HANG_UP_S until they have closed the connection."""
        bad = [_finding_values(f) for f in findings if f.status is not Status.OK]
        for node in self.connections:
            rank = node.hello.rank if node.hello else None
            word = {"envcheck-node": "verdict", "rank": rank, "findings": bad, "nodes": len(nodes)}
            with contextlib.suppress(OSError):
                node.socket.setblocking(True)
                node.socket.settimeout(HANG_UP_S)
                node.socket.sendall(json.dumps(word).encode() + b"\n")
        until = time.monotonic() + HANG_UP_S
        for node in self.connections:
            with contextlib.suppress(OSError):
                node.socket.settimeout(max(0.1, until - time.monotonic()))
                node.socket.recv(1)
            node.socket.close()


def _address_order(address: str) -> tuple[object, ...]:
    """Return a sort key with numbers by value: 10.0.0.9 before 10.0.0.10."""
    return tuple(int(part) if part.isdigit() else -1 for part in address.replace(":", ".").split(".")), address


def _finding_values(finding: Finding) -> dict[str, object]:
    remedy = finding.remedy.words if finding.remedy else NOTHING
    return {
        "name": finding.name,
        "status": finding.status.name,
        "seen": finding.seen,
        "message": describe(finding.seen),
        "words": remedy,
        "remedy": describe(remedy),
        "evidence": list(finding.evidence),
    }
