"""Ports, addresses and names."""

from __future__ import annotations

import ipaddress

from envcheck.model import Finding, Severity
from launch.gates.answers import answer
from launch.situation import Situation


def port(s: Situation) -> Finding:
    """The port that the launcher would open is free."""
    if s.port is None:
        return Finding("gate.port", Severity.OK, "the launcher looks for free ports itself")
    seen = f"port {s.port}: {s.port_error or 'free'}"
    words = "Choose another with --port, or end who holds it."
    return answer("gate.port", s.port_error is None, seen, words, f"ss -ltnp 'sport = :{s.port}'")


def own_name(s: Situation) -> Finding:
    """The machine's own name leads to an address; with several nodes, to one that the others reach."""
    known = s.facts.network
    if known is None:
        return answer("gate.name", None, "could not tell what the own name resolves to", "getent hosts $(hostname)")
    found = known.resolves_to or ()
    several = s.job.nodes > 1
    good = any(not _loopback(a) for a in found) if several else bool(found)
    seen = f"the own name resolves to {', '.join(found) or 'nothing'}"
    words = "Add the machine's name and address to /etc/hosts: the launcher finds itself by them."
    return answer(
        "gate.name", good, seen, words, "getent hosts $(hostname)", bad=Severity.FAIL if several else Severity.WARN
    )


def _loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address.partition("%")[0]).is_loopback
    except ValueError:
        return False
