"""Another node of a meeting: it knocks until node 0 opens, greets, and waits for its word."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Iterator
from dataclasses import replace

from envcheck.core.model import Finding, Remedy, Status
from launch.rendezvous.hello import LIMIT, Hello, packed
from launch.rendezvous.result import HANG_UP_S, SAY_EVERY_S, RendezvousResult, Say, alone, failed

TRY_EVERY_S = 0.5


def join(own: Hello, master: str, port: int, deadline: float, limit_s: float, say: Say) -> RendezvousResult:
    """Another node: knock until node 0 opens, greet, wait for its word."""
    why, told = "", 0.0
    while (left := deadline - time.monotonic()) > 0:
        try:
            with socket.create_connection((master, port), timeout=min(left, 10.0)) as talk:
                return _talk(own, talk, deadline, limit_s, say)
        except ConnectionError as err:
            why = f"nobody listens there ({(err.strerror or str(err)).lower()})"
        except socket.gaierror as err:
            why = f"the name leads nowhere ({err.strerror})"
        except OSError as err:
            why = f"no answer, as behind a firewall ({(err.strerror or str(err)).lower()})"
        if time.monotonic() - told > SAY_EVERY_S:
            told = time.monotonic()
            say(f"waiting for node 0 at {master}:{port}: {why}")
        time.sleep(min(TRY_EVERY_S, max(0.0, deadline - time.monotonic())))
    words = "Start node 0 with the same --master, look whether a firewall closes the port, give more time by --gather."
    return alone(own, failed("nodes.master", f"node 0 at {master}:{port} within {limit_s:g} s: {why}", words))


def _talk(own: Hello, talk: socket.socket, deadline: float, limit_s: float, say: Say) -> RendezvousResult:
    lines = _lines(talk, deadline)
    if next(lines, {}).get("envcheck-node") != "who":
        raise ConnectionResetError(0, "something else listens there")
    talk.sendall(packed(replace(own, now=time.time())))
    say("node 0 has heard of us; waiting for the others")
    word = next(lines, {})
    if word.get("envcheck-node") != "verdict":
        words = "Look at its words, then start all nodes again."
        late = time.monotonic() >= deadline
        how = f"gave no word within {limit_s:g} s" if late else "hung up before all were there"
        return alone(own, failed("nodes.master", f"node 0 {how}", words))
    return _verdict(own, word)


def _verdict(own: Hello, word: dict[str, object]) -> RendezvousResult:
    said = word.get("findings")
    findings = tuple(_finding(each) for each in said if isinstance(each, dict)) if isinstance(said, list) else ()
    rank = word.get("rank")
    number = rank if isinstance(rank, int) else own.rank or 0
    fine = Finding("nodes.ranks", Status.OK, f"this is rank {number} of {own.nodes}")
    return RendezvousResult(number, (replace(own, rank=number),), findings or (fine,))


def _finding(said: dict[str, object]) -> Finding:
    """As node 0 saw it; nothing in it is trusted to be right."""
    name, seen, words, lines = (said.get(key) for key in ("name", "seen", "words", "evidence"))
    status = Status.WARN if said.get("status") == "WARN" else Status.FAIL
    evidence = tuple(_plain(line) for line in lines[:50]) if isinstance(lines, list) else ()
    return Finding(_plain(name)[:60], status, _plain(seen), Remedy(_plain(words)), evidence)


def _plain(text: object) -> str:
    return "".join(c if c.isprintable() else "?" for c in str(text)[:1000])


def _lines(talk: socket.socket, deadline: float) -> Iterator[dict[str, object]]:
    """Documents until the other side hangs up, or the deadline."""
    said = b""
    while len(said) <= LIMIT:
        *whole, said = said.split(b"\n")
        for line in whole:
            with contextlib.suppress(ValueError, RecursionError):
                found = json.loads(line)
                yield found if isinstance(found, dict) else {}
        talk.settimeout(max(0.01, deadline + HANG_UP_S - time.monotonic()))
        try:
            piece = talk.recv(64 << 10)
        except OSError:
            return
        if not piece:
            return
        said += piece
