"""What ought to be equal on all hosts of a fleet, as a table; `voted` counts."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from envcheck.collect.questions import IMAGES
from envcheck.core import installed_versions
from envcheck.core.derived import ports
from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.findings import ranges
from envcheck.core.model import Status
from probes.ascend.hccn import read_tls
from probes.host import network_schemas

Values = Mapping[str, str]  # subject → value, as "MTU of eth0" → "1500"
FAIL, WARN = Status.FAIL, Status.WARN
NOT_SET = "not set"
IMAGES_LIMIT = 64
# Of one node alone, as the launchers' documents have it.
OWN_VARIABLES = ("RANK", "TRAINER_ID", "POD_IP", "CURRENT_ENDPOINT", "_IF_IP", "POD_NAME", "PORT", "HOST_IP", "PRELOAD")
VIRTUAL = ("lo", "docker", "veth", "br-", "virbr", "cni", "flannel", "cali", "tun", "ifb", "kube", "lxc", "podman")


@dataclass(frozen=True)
class Voted:
    """`read` gives what one host says; `absent` is what a host without a subject that others have counts as.

    None, of either: it does not vote there, since it could not tell.
    """

    name: str
    read: Callable[[Facts], Values | None]
    status: Status
    words: str
    absent: str | None = None


def _cards(facts: Facts) -> Values:
    counted = {v.name: Counter(d.name or "unnamed" for d in v.devices) for v in facts.vendors if v.devices}
    named = [f"{n} × {name}" for found in counted.values() for name, n in sorted(found.items())]
    told = all(v.devices for v in facts.vendors)
    return {"cards": ", ".join(named) or "none"} if told else {}


def _of_vendors(what: str, read: Callable[[Facts, VendorFacts], str | None]) -> Callable[[Facts], Values]:
    def values(facts: Facts) -> Values:
        told = {f"{what} ({v.vendor.title})": read(facts, v) for v in facts.vendors}
        return {subject: value for subject, value in told.items() if value}

    return values


def _host(what: str, read: Callable[[Facts], object]) -> Callable[[Facts], Values]:
    return lambda facts: {} if (value := read(facts)) is None else {what: str(value)}


def _packages(facts: Facts) -> Values | None:
    return facts.packages.packages if facts.packages else None


def _environment(facts: Facts) -> Values | None:
    told = facts.environment
    if told is None:
        return None
    return {name: value for name, value in told.items() if not name.endswith(OWN_VARIABLES)}


def _mtu(facts: Facts) -> Values:
    listed = facts.network.interfaces if facts.network else {}
    real = {name: one for name, one in listed.items() if one.up and one.mtu and not name.startswith(VIRTUAL)}
    return {f"MTU of {name}": str(one.mtu) for name, one in real.items()}


def _images(facts: Facts) -> Values | None:
    """Of each image that has a name: two hosts may have different ones, but one name should be one image."""
    answer = facts.answers.get(IMAGES.key)
    if answer is None or not answer.ok:
        return None
    lines = (line.split() for line in answer.out.splitlines()[:IMAGES_LIMIT])
    told = [words for words in lines if len(words) == 3 and "<none>" not in words[0]]
    return {f"image {name}": digest if digest != "<none>" else number for name, digest, number in told}


def _ports(facts: Facts, v: VendorFacts) -> str | None:
    if not v.vendor.port_env or facts.environment is None or len(v.devices) < 2:
        return None
    used = ports.used_ports(facts, v)
    return ranges(sorted(used)) if used else None


def _tls(facts: Facts, v: VendorFacts) -> str | None:
    """Of all dies; the host's own check names those that differ there."""
    asked = (a for key, a in facts.answers.items() if re.fullmatch(r"run hccn_tool -i \d+ -tls -g", key))
    states = {state for a in asked if (state := read_tls(a.text)) is not None}
    return {0: "off", 1: "on"}[states.pop()] if len(states) == 1 else "on and off" if states else None


def _rank_table(facts: Facts) -> str | None:
    """A table's sum, of what it says and not of how it is written."""
    found = network_schemas.rank_table(facts)
    if found is None or found.error:
        return None
    if found.path is None:
        return NOT_SET
    said = hashlib.sha256(repr((found.count, found.servers, found.cards)).encode()).hexdigest()[:12]
    return f"{len(found.cards)} ranks on {len(found.servers)} servers, sum {said}"


def _clock(facts: Facts) -> str | None:
    return None if facts.clock_synchronised is None else "yes" if facts.clock_synchronised else "no"


def _driver(facts: Facts, v: VendorFacts) -> str | None:
    return v.document.driver_version if v.document else None


def _firmware(facts: Facts, v: VendorFacts) -> str | None:
    return installed_versions.firmware_version(v)


TABLE = (
    Voted("fleet.cards", _cards, FAIL, "Use nodes with the same cards, or --cards with what all have."),
    Voted("fleet.driver", _of_vendors("driver", _driver), WARN,
          "Nodes of one driver are the tested case: update the odd one."),
    Voted("fleet.firmware", _of_vendors("firmware", _firmware), WARN,
          "Update the odd one's firmware with its driver."),
    Voted("fleet.toolkit", _of_vendors("toolkit", installed_versions.toolkit_version), WARN,
          "Use one toolkit, or one image, on all nodes."),
    Voted("fleet.architecture", _host("architecture", lambda f: f.host.architecture if f.host else None), FAIL,
          "One job wants one architecture: wheels and images are built for it."),
    Voted("fleet.kernel", _host("kernel", lambda f: f.host.kernel if f.host else None), WARN,
          "Boot the same kernel on all: the driver's module is built for it."),
    Voted("fleet.os", _host("system", lambda f: f.host.os if f.host else None), WARN, "Use one system on all nodes."),
    Voted("fleet.numa", _host("NUMA nodes", lambda f: f.host.numa_nodes if f.host else None), WARN,
          "Look at the odd one's firmware settings (NPS, sub-NUMA clustering)."),
    Voted("fleet.python", _host("Python", lambda f: f.packages.python if f.packages else None), WARN,
          "Use one Python, or one image, on all nodes."),
    Voted("fleet.packages", _packages, WARN, "Provision the nodes by one lock: envcheck provision --locked.",
          "not installed"),
    Voted("fleet.mtu", _mtu, FAIL, "Give the interface the same MTU on all nodes: large packets get lost otherwise."),
    Voted("fleet.ports", _of_vendors("ports", _ports), WARN,
          "Give the collectives the same ports on all nodes: unset HCCL_IF_BASE_PORT, or set it alike."),
    Voted("fleet.tls", _of_vendors("TLS", _tls), FAIL,
          "Switch it alike on all cards of all nodes (hccn_tool -tls): ranks refuse each other otherwise."),
    Voted("fleet.rank_table", _host("table of ranks", _rank_table), FAIL,
          "Put one table of ranks on all nodes, or unset RANK_TABLE_FILE on all."),
    Voted("fleet.image", _images, WARN, "Pull the image anew on the odd one, by its digest."),
    Voted("fleet.synchronised", _host("clock synchronised", _clock), WARN,
          "Let chrony or timesyncd run on all nodes: clocks that drift drop nodes from the rendezvous."),
    Voted("fleet.environment", _environment, WARN, "Set the variable alike on all nodes.", NOT_SET),
)  # fmt: skip


def values(facts: Facts) -> dict[str, Values]:
    """What one host says of each line of the table that it could tell; small, so that a fleet's can be kept."""
    return {line.name: said for line in TABLE if (said := line.read(facts)) is not None}
