"""The answers to follow-up questions about single devices."""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.core.derived.key_value import fields
from envcheck.core.facts import VendorFacts
from envcheck.core.model import Device
from envcheck.core.vendor import PER_DEVICE, PER_DIE


def follow_up_key(v: VendorFacts, kind: str, number: object) -> str:
    """Return the key of the answer to the follow-up question `kind` about one device."""
    question = v.vendor.per_device.get(kind)
    holes = (PER_DEVICE, PER_DIE)
    return f"run {' '.join(str(number) if word in holes else word for word in question.what)}" if question else ""


def is_partitioned(device: Device) -> bool:
    """Return whether the device is a GPU with MIG instances."""
    return str(device.mig_mode).lower().startswith(("enabled", "on"))


def iterate_device_values(v: VendorFacts, kind: str, key: str) -> Iterator[tuple[int, object]]:
    """Yield (id, value) for each device whose answer of this kind has the key, which is in lower case."""
    for number, kinds in v.per_device.items():
        pairs = fields(kinds[kind]) if kind in kinds else {}
        values = [value for name, value in pairs.items() if name.lower() == key]
        if values and values[-1] is not None:
            yield number, values[-1]
