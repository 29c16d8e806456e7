"""Accelerators as the planner sees them: what is gone before the job's first tensor, and what links carry."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from envcheck.core.errors import UsageError
from envcheck.core.toml_file import Given, own_part, own_records, own_table
from envcheck.vendors import find_data_files
from launch.catalogue.links import Links

OTHERS = Path(__file__).with_name("devices.toml")


@dataclass(frozen=True)
class Device:
    """One kind of card (of Iluvatar a die).

    `idle_gib` is in use on an idle card, `context_gib` what the first kernel loads, `collective_gib` what the first
    collective adds, `communicator_gib` each further communicator.  `tflops` is dense 16-bit peak, `link_gbs` what one
    card sends to its node's others, `net_gbs` its share of the network, `pcie_gbs` what its PCIe port carries in
    practice, all in 10^9 bytes a second, one way; `links` are those of the machine at hand, None where not known.
    `workspace_gib` is what matrix libraries take on it beyond their usual scratch; `parallel_framework` is the one
    of Megatron's kind that splits models over such cards.
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
    links: Given[Links | None] = None


def assumed_links(device: Device, cards: int) -> Iterator[str]:
    """What is taken for links and network where no topology tells, in words."""
    inside, beyond = f"{device.link_gbs:g} GB/s a card within a machine", f"{device.net_gbs:g} GB/s between machines"
    if device.links is None and cards > 1:
        yield f"links: {inside} of {device.cards_per_node}, {beyond}, as {device.name} usually has"
    elif device.links and cards > device.links.cards:
        yield f"links: further machines like this one, {beyond}"


def assumed_card(device: Device) -> str:
    """What is taken for a card that no table describes, in words; "" for the others."""
    return f"card: no table describes it; planned {device.source}" if device.name == devices()[-1].name else ""


@cache
def devices() -> tuple[Device, ...]:
    """The vendors' own, by their devices.toml, then those of other vendors; the last stands for unknown cards."""
    own = [
        own_part(Device, path, {"vendor": vendor.name, **row}, name, name=name)
        for vendor, path in find_data_files("devices.toml")
        for name, row in own_table(path).items()
    ]
    return (*own, *own_records(Device, OTHERS).values())


def find(text: str) -> Device:
    """The first device whose words stand in `text` (910B3, BI-V150, A100); the last of the list fits everything."""
    low = text.lower()
    for device in devices():
        if any(word in low for word in device.names):
            return device
    return devices()[-1]


def of_vendor(vendor: str) -> Device:
    """The usual card of a vendor: the first of the list; UsageError where no table has one."""
    found = next((d for d in devices() if d.vendor == vendor), None)
    if found is None:
        known = ", ".join(dict.fromkeys(d.vendor for d in devices()[:-1]))
        raise UsageError(f"no table describes a card of --device {vendor}", f"known are {known}")
    return found
