"""The client of the rendezvous: connects to node 0, sends the facts of this node, and waits for the verdict."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Iterator
from dataclasses import replace

from envcheck.core.errors import describe_os_error
from envcheck.core.messages import NOTHING, _, restore
from envcheck.core.model import Finding, Status, manual
from launch.rendezvous.hello import LIMIT, Hello, pack_hello
from launch.rendezvous.result import HANG_UP_S, SAY_EVERY_S, RendezvousResult, Say, build_failure, build_lone_result

TRY_EVERY_S = 0.5


class WrongServiceError(OSError):
    """The port of node 0 belongs to a program other than envcheck."""


def join_rendezvous(own: Hello, master: str, port: int, deadline: float, limit_s: float, say: Say) -> RendezvousResult:
    """Connect to node 0 until `deadline` and return its verdict, or a finding that says why there is none.

    `limit_s` is the whole time limit, for messages; `say` is called with progress.
    """
    why, reported_at = NOTHING, 0.0
    while (left := deadline - time.monotonic()) > 0:
        try:
            with socket.create_connection((master, port), timeout=min(left, 10.0)) as connection:
                return _exchange_hello(own, connection, deadline, limit_s, say)
        except WrongServiceError:
            why = _("another program listens on this port")
        except ConnectionError as err:
            why = _("no process listens on this port ({reason})", reason=describe_os_error(err))
        except socket.gaierror as err:
            why = _("cannot resolve the name ({reason})", reason=describe_os_error(err))
        except OSError as err:
            why = _("no response, possibly blocked by a firewall ({reason})", reason=describe_os_error(err))
        if time.monotonic() - reported_at > SAY_EVERY_S:
            reported_at = time.monotonic()
            say(_("waiting for node 0 at {master}:{port}: {why}", master=master, port=port, why=why))
        time.sleep(min(TRY_EVERY_S, max(0.0, deadline - time.monotonic())))
    words = _(
        "Start node 0 with the same --master, check that no firewall blocks the port, or allow more time with --gather."
    )
    seen = _(
        "no connection to node 0 at {master}:{port} within {limit_s:g} s: {why}",
        master=master,
        port=port,
        limit_s=limit_s,
        why=why,
    )
    return build_lone_result(own, build_failure("nodes.master", seen, words))


def _exchange_hello(
    own: Hello, connection: socket.socket, deadline: float, limit_s: float, say: Say
) -> RendezvousResult:
    lines = _read_documents(connection, deadline)
    if next(lines, {}).get("envcheck-node") != "who":
        raise WrongServiceError
    connection.sendall(pack_hello(replace(own, now=time.time())))
    say(_("connected to node 0; waiting for the other nodes"))
    word = next(lines, {})
    if word.get("envcheck-node") != "verdict":
        words = _("Check the output of node 0, then start all nodes again.")
        late = time.monotonic() >= deadline
        seen = (
            _("node 0 did not respond within {limit_s:g} s", limit_s=limit_s)
            if late
            else _("node 0 closed the connection before all nodes had joined")
        )
        return build_lone_result(own, build_failure("nodes.master", seen, words))
    return _parse_verdict(own, word)


def _parse_verdict(own: Hello, word: dict[str, object]) -> RendezvousResult:
    sent = word.get("findings")
    findings = tuple(_parse_finding(each) for each in sent if isinstance(each, dict)) if isinstance(sent, list) else ()
    rank = word.get("rank")
    number = rank if isinstance(rank, int) else own.rank or 0
    passed = Finding("nodes.ranks", Status.OK, _("this is rank {number} of {nodes}", number=number, nodes=own.nodes))
    return RendezvousResult(number, (replace(own, rank=number),), findings or (passed,))


def _parse_finding(values: dict[str, object]) -> Finding:
    """Return a finding of node 0, parsed as untrusted input."""
    name, seen, words, lines = (values.get(key) for key in ("name", "seen", "words", "evidence"))
    status = Status.WARN if values.get("status") == "WARN" else Status.FAIL
    evidence = tuple(_clean_text(line) for line in lines[:50]) if isinstance(lines, list) else ()
    message = restore(_clean_text(seen), values.get("message"), _clean_text)
    remedy = restore(_clean_text(words), values.get("remedy"), _clean_text)
    return Finding(_clean_text(name)[:60], status, message, manual(remedy), evidence)


def _clean_text(text: object) -> str:
    return "".join(c if c.isprintable() else "?" for c in str(text)[:1000])


def _read_documents(connection: socket.socket, deadline: float) -> Iterator[dict[str, object]]:
    """Yield JSON objects, one per line, until the connection closes, the deadline, or LIMIT bytes without a newline."""
    received = b""
    while len(received) <= LIMIT:
        *lines, received = received.split(b"\n")
        for line in lines:
            with contextlib.suppress(ValueError, RecursionError):
                found = json.loads(line)
                yield found if isinstance(found, dict) else {}
        connection.settimeout(max(0.01, deadline + HANG_UP_S - time.monotonic()))
        try:
            piece = connection.recv(64 << 10)
        except OSError:
            return
        if not piece:
            return
        received += piece
