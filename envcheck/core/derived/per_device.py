"""What the follow-up questions about single devices were answered."""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.core.facts import VendorFacts
from envcheck.core.key_value import fields
from envcheck.core.model import Device
from envcheck.core.vendor import PER_DEVICE, PER_DIE


def question_key(v: VendorFacts, kind: str, number: object) -> str:
    """The key of the answer to the follow-up question `kind` about one device."""
    question = v.vendor.per_device.get(kind)
    holes = (PER_DEVICE, PER_DIE)
    return f"run {' '.join(str(number) if word in holes else word for word in question.what)}" if question else ""


def is_cut(device: Device) -> bool:
    """Whether it is a GPU cut into MIG instances."""
    return str(device.mig_mode).lower().startswith(("enabled", "on"))


def told_per_device(v: VendorFacts, kind: str, key: str) -> Iterator[tuple[int, object]]:
    """(id, value) of each device whose answer of this kind has the key, in lower case."""
    for number, kinds in v.per_device.items():
        pairs = fields(kinds[kind]) if kind in kinds else {}
        said = [value for name, value in pairs.items() if name.lower() == key]
        if said and said[-1] is not None:
            yield number, said[-1]
