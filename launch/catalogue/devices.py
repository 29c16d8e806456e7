"""Accelerators for the planner: memory in use before the first tensor of a job, and bandwidths."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from envcheck.core.errors import UsageError
from envcheck.core.messages import NOTHING, Message, _, fill, join, mark
from envcheck.core.toml_file import Given, load_own_part, load_own_records, load_own_table
from envcheck.vendors import find_data_files
from launch.catalogue.links import MachineLinks

OTHERS = Path(__file__).with_name("devices.toml")
TYPICAL_LINKS = mark(
    "links: {link_gbs:g} GB/s per card within a machine of {cards_per_node}, "
    "{net_gbs:g} GB/s between machines (typical for {name})"
)
ESTIMATED_LINKS = mark(
    "links: {link_gbs:g} GB/s per card within a machine of {cards_per_node}, "
    "{net_gbs:g} GB/s between machines (estimated from comparable cards; no figures are published for {name})"
)


@dataclass(frozen=True)
class DeviceModel:
    """A kind of card (for Iluvatar, a die).

    Memory: `idle_gib` in use on an idle card, `context_gib` for the first kernel, `collective_gib` for the first
    collective, `communicator_gib` for each further communicator, `workspace_gib` of matrix libraries beyond the usual.
    `tflops`: dense 16-bit peak.  Bandwidths in 10^9 bytes per second, one way: `link_gbs` from one card to the others
    of its node, `net_gbs` its share of the network, `pcie_gbs` its PCIe port in practice.  `links`: those of a real
    machine, None if unknown.  `parallel_framework`: the Megatron kind of framework for such cards.  `estimates`: the
    fields whose values are estimates after comparable cards, because none are published.
    """

    name: Given[str]
    vendor: str
    memory_gib: float
    idle_gib: float
    context_gib: float
    collective_gib: float
    communicator_gib: float
    tflops: float
    link_gbs: float
    net_gbs: float
    cards_per_node: int
    four_bit: bool
    names: tuple[str, ...]
    source: str
    workspace_gib: float = 0.0
    pcie_gbs: float = 24.0
    parallel_framework: str = "megatron"
    estimates: tuple[str, ...] = ()
    links: Given[MachineLinks | None] = None


def assumed_links(device: DeviceModel, cards: int) -> Iterator[Message]:
    """Yield the assumed bandwidths of links and network, if the topology does not tell them."""
    if device.links is None and cards > 1:
        yield fill(
            ESTIMATED_LINKS if "link_gbs" in device.estimates else TYPICAL_LINKS,
            link_gbs=device.link_gbs,
            cards_per_node=device.cards_per_node,
            net_gbs=device.net_gbs,
            name=device.name,
        )
    elif device.links and cards > device.links.cards:
        yield _("links: more machines like this one, {net_gbs:g} GB/s between machines", net_gbs=device.net_gbs)


def assumed_card(device: DeviceModel) -> Message:
    """Return a note for a card that is not in the tables, or whose memory figures are estimates, else ""."""
    if device.name == load_devices()[-1].name:
        return _("card: not in the device table; planned with the figures of an A100")  # the last of devices.toml
    if not {"context_gib", "collective_gib", "communicator_gib"} & set(device.estimates):
        return NOTHING
    return _(
        "card: {context_gib:g} GiB for the context, {collective_gib:g} GiB for collectives and "
        "{communicator_gib:g} GiB per further communicator (estimated from comparable cards; "
        "no figures are published for {name})",
        context_gib=device.context_gib,
        collective_gib=device.collective_gib,
        communicator_gib=device.communicator_gib,
        name=device.name,
    )


@cache
def load_devices() -> tuple[DeviceModel, ...]:
    """Return the vendors' devices.toml, then the cards of other vendors; the last is used for unknown cards."""
    own = [
        load_own_part(DeviceModel, path, {"vendor": vendor.name, **row}, name, name=name)
        for vendor, path in find_data_files("devices.toml")
        for name, row in load_own_table(path).items()
    ]
    return (*own, *load_own_records(DeviceModel, OTHERS).values())


def find_device(text: str) -> DeviceModel:
    """Return the first device one of whose names is in `text` (910B3, BI-V150, A100), else the last of the list."""
    low = text.lower()
    for device in load_devices():
        if any(word in low for word in device.names):
            return device
    return load_devices()[-1]


def find_default_device(vendor: str) -> DeviceModel:
    """Return the default card of a vendor, its first; UsageError if it has none."""
    found = next((d for d in load_devices() if d.vendor == vendor), None)
    if found is None:
        known = join(", ", dict.fromkeys(d.vendor for d in load_devices()[:-1]))
        raise UsageError(
            _("--device {vendor}: not in the device table", vendor=vendor), _("choose one of {legal}", legal=known)
        )
    return found
