"""Table of the properties that should be equal on all hosts of a fleet; `majority` counts them."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from envcheck.collect.questions import IMAGES
from envcheck.core.derived import collective_ports, installed_versions
from envcheck.core.derived.key_value import reported_driver_version
from envcheck.core.facts import Facts, SystemFacts, VendorFacts
from envcheck.core.findings import format_ranges
from envcheck.core.messages import Message, _, join
from envcheck.core.model import Status
from probes.ascend.hccn import read_tls
from probes.host import network_schemas

Values = Mapping[str, str]  # subject → value, as "MTU of eth0" → "1500"
FAIL, WARN = Status.FAIL, Status.WARN
NOT_SET = _("not set")
IMAGES_LIMIT = 64
# Variables that differ between nodes by design, from the launchers' documentation.
OWN_VARIABLES = ("RANK", "TRAINER_ID", "POD_IP", "CURRENT_ENDPOINT", "_IF_IP", "POD_NAME", "PORT", "HOST_IP", "PRELOAD")
VIRTUAL = ("lo", "docker", "veth", "br-", "virbr", "cni", "flannel", "cali", "tun", "ifb", "kube", "lxc", "podman")


@dataclass(frozen=True)
class ComparedProperty:
    """A property to compare: `read` returns a host's values by subject, None if unknown.

    `absent` is the value of a host that lacks a subject which others have; None: such a host does not vote.
    """

    name: str
    read: Callable[[Facts], Values | None]
    status: Status
    words: Message
    absent: str | None = None


def _read_cards(facts: Facts) -> Values:
    counted = {v.name: Counter(d.name or "unnamed" for d in v.devices) for v in facts.vendors if v.devices}
    named = [f"{n} × {name}" for found in counted.values() for name, n in sorted(found.items())]
    is_known = all(v.devices for v in facts.vendors)
    return {_("cards"): join(", ", named) or _("none")} if is_known else {}


def _read_per_vendor(what: Message, read: Callable[[Facts, VendorFacts], str | None]) -> Callable[[Facts], Values]:

    def read_vendors(facts: Facts) -> Values:
        values = {_("{subject} ({title})", subject=what, title=v.vendor.title): read(facts, v) for v in facts.vendors}
        return {subject: value for subject, value in values.items() if value}

    return read_vendors


def _read_host_value(what: Message, read: Callable[[Facts], object]) -> Callable[[Facts], Values]:
    return lambda facts: (
        {} if (value := read(facts)) is None else {what: value if isinstance(value, str) else str(value)}
    )


def _read_system_value(what: Message, read: Callable[[SystemFacts], object]) -> Callable[[Facts], Values]:
    return _read_host_value(what, lambda facts: read(facts.host) if facts.host else None)


def _read_packages(facts: Facts) -> Values | None:
    return facts.packages.packages if facts.packages else None


def _read_environment(facts: Facts) -> Values | None:
    environment = facts.environment
    if environment is None:
        return None
    return {name: value for name, value in environment.items() if not name.endswith(OWN_VARIABLES)}


def _read_mtus(facts: Facts) -> Values:
    listed = facts.network.interfaces if facts.network else {}
    real = {name: one for name, one in listed.items() if one.up and one.mtu and not name.startswith(VIRTUAL)}
    return {_("MTU of {interface}", interface=name): str(one.mtu) for name, one in real.items()}


def _read_images(facts: Facts) -> Values | None:
    # Hosts may have different images, but one name should mean the same image everywhere.
    answer = facts.answers.get(IMAGES.key)
    if answer is None or not answer.ok:
        return None
    lines = (line.split() for line in answer.out.splitlines()[:IMAGES_LIMIT])
    named = [words for words in lines if len(words) == 3 and "<none>" not in words[0]]
    return {_("image {name}", name=name): digest if digest != "<none>" else number for name, digest, number in named}


def _read_ports(facts: Facts, v: VendorFacts) -> str | None:
    if not v.vendor.port_env or facts.environment is None or len(v.devices) < 2:
        return None
    used = collective_ports.list_used_ports(facts, v)
    return format_ranges(sorted(used)) if used else None


def _read_tls_state(facts: Facts, v: VendorFacts) -> Message | None:
    """Return the TLS state of all dies; the host's own check reports dies that differ within a host."""
    asked = (a for key, a in facts.answers.items() if re.fullmatch(r"run hccn_tool -i \d+ -tls -g", key))
    states = {state for a in asked if (state := read_tls(a.text)) is not None}
    return {0: _("off"), 1: _("on")}[states.pop()] if len(states) == 1 else _("partly on") if states else None


def _read_rank_table(facts: Facts) -> Message | None:
    """Return ranks, servers and a checksum of a rank table's content, independent of its formatting."""
    found = network_schemas.read_rank_table(facts)
    if found is None or found.error:
        return None
    if found.path is None:
        return NOT_SET
    return _(
        "ranks: {cards_count}, servers: {servers_count}, checksum: {checksum}",
        cards_count=len(found.cards),
        servers_count=len(found.servers),
        checksum=_hash_rank_table(found),
    )


def _hash_rank_table(table: network_schemas.RankTable) -> str:
    """Return 12 hexadecimal digits that are equal for tables with the same servers, cards and ranks."""
    cards = [[card.rank, card.server, card.device, card.address] for card in table.cards]
    content = json.dumps([table.count, list(table.servers), cards])
    return hashlib.sha256(content.encode()).hexdigest()[:12]


def _read_clock_state(facts: Facts) -> Message | None:
    return None if facts.clock_synchronised is None else _("yes") if facts.clock_synchronised else _("no")


def _read_driver(facts: Facts, v: VendorFacts) -> str | None:
    return reported_driver_version(v)


def _read_firmware(facts: Facts, v: VendorFacts) -> str | None:
    return installed_versions.firmware_version(v)


COMPARED_PROPERTIES = (
    ComparedProperty(
        "fleet.cards",
        _read_cards,
        FAIL,
        _("Use nodes with the same number of cards, or set --cards-per-node to a number that all nodes have."),
    ),
    ComparedProperty(
        "fleet.driver",
        _read_per_vendor(_("driver"), _read_driver),
        WARN,
        _("Install the same driver version on all nodes; mixed versions are untested."),
    ),
    ComparedProperty(
        "fleet.firmware",
        _read_per_vendor(_("firmware"), _read_firmware),
        WARN,
        _("Install the same firmware version on all nodes, together with the driver."),
    ),
    ComparedProperty(
        "fleet.toolkit",
        _read_per_vendor(_("toolkit"), installed_versions.toolkit_version),
        WARN,
        _("Use the same toolkit or the same image on all nodes."),
    ),
    ComparedProperty(
        "fleet.architecture",
        _read_system_value(_("architecture"), lambda host: host.architecture),
        FAIL,
        _("Use nodes of one architecture for a job: wheels and images are architecture-specific."),
    ),
    ComparedProperty(
        "fleet.kernel",
        _read_system_value(_("kernel"), lambda host: host.kernel),
        WARN,
        _("Boot the same kernel on all nodes: the driver module is built for one kernel."),
    ),
    ComparedProperty(
        "fleet.os",
        _read_system_value(_("operating system"), lambda host: host.os),
        WARN,
        _("Use the same operating system on all nodes."),
    ),
    ComparedProperty(
        "fleet.numa",
        _read_system_value(_("NUMA nodes"), lambda host: host.numa_nodes),
        WARN,
        _("Check the BIOS settings (NPS, sub-NUMA clustering) of the node that differs."),
    ),
    ComparedProperty(
        "fleet.python",
        _read_host_value(_("Python"), lambda f: f.packages.python if f.packages else None),
        WARN,
        _("Use the same Python or the same image on all nodes."),
    ),
    ComparedProperty(
        "fleet.packages",
        _read_packages,
        WARN,
        _("Provision all nodes from one lock file: envcheck provision --locked."),
        _("not installed"),
    ),
    ComparedProperty(
        "fleet.mtu",
        _read_mtus,
        FAIL,
        _("Set the same MTU for the interface on all nodes; otherwise large packets are lost."),
    ),
    ComparedProperty(
        "fleet.ports",
        _read_per_vendor(_("ports"), _read_ports),
        WARN,
        _("Use the same collective ports on all nodes: unset HCCL_IF_BASE_PORT, or set the same value everywhere."),
    ),
    ComparedProperty(
        "fleet.tls",
        _read_per_vendor(_("TLS"), _read_tls_state),
        FAIL,
        _("Set the same TLS switch on all cards of all nodes (hccn_tool -tls); otherwise ranks refuse to connect."),
    ),
    ComparedProperty(
        "fleet.rank_table",
        _read_host_value(_("rank table"), _read_rank_table),
        FAIL,
        _("Copy one rank table to all nodes, or unset RANK_TABLE_FILE on all nodes."),
    ),
    ComparedProperty("fleet.image", _read_images, WARN, _("Pull the image by digest on the node that differs.")),
    ComparedProperty(
        "fleet.synchronised",
        _read_host_value(_("clock synchronised"), _read_clock_state),
        WARN,
        _("Run chrony or timesyncd on all nodes: clock drift makes nodes drop out of the rendezvous."),
    ),
    ComparedProperty(
        "fleet.environment", _read_environment, WARN, _("Set the same value of the variable on all nodes."), NOT_SET
    ),
)


def read_values(facts: Facts) -> dict[str, Values]:
    """Return the host's known values by property; small, so that a whole fleet's fit in memory."""
    return {line.name: values for line in COMPARED_PROPERTIES if (values := line.read(facts)) is not None}
