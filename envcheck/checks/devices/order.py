"""How devices are numbered, by the tool, by their nodes and by a list: what a launch makes of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from envcheck.core.check import Check, of_devices
from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.findings import (
    commands,
    fail,
    figures,
    label,
    no_rule,
    not_told,
    of_device,
    ok,
    skip,
    unknown,
    warn,
)
from envcheck.core.model import Device, Finding


def visible(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The list of visible devices is clean: a blank or a number that is not there cuts it silently."""
    name = v.vendor.visible_env
    if not name:
        yield no_rule(v, "variable of visible devices")
        return
    if facts.environment is None:
        yield not_told(facts, "ask environment")
        return
    value = facts.environment.get(name)
    if value is None:
        yield skip(f"{name} is not set: all devices are seen")
    elif wrong := _wrong_list(value, len(v.devices)):
        words = "Write ascending numbers with commas alone, each once."
        right = f"export {name}={','.join(map(str, range(len(v.devices))))}"
        yield fail(f"{name}={value}: {wrong}", words, right, evidence=figures("environment", **{name: value}))
    else:
        yield ok(f"{name}={value}")


def order(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The devices' indices follow the bus: schedulers and frameworks that count otherwise choose others."""
    told = [d for d in v.devices if d.bus_id and d.index is not None]
    kinds = {d.name for d in v.devices}
    name, right = v.vendor.order_variable
    chosen = (facts.environment or {}).get(name)
    wrong = next((b for a, b in pairwise(told) if _place(b) < _place(a)), None)
    if len(told) < len(v.devices):
        yield unknown("the tool does not show index and bus id of each device")
    elif wrong:
        words = "Name devices by their UUID: the tool's numbers are not in the order of the bus."
        shown = of_device(v, wrong, "memory_total_mib")
        yield warn(
            f"device {label(wrong)} lies before the one above it on the bus",
            words,
            *commands(v, "uuids"),
            evidence=shown,
        )
    elif len(kinds) > 1 and name and chosen != right:
        words = f"Set it: {v.vendor.toolkit} counts the fastest first otherwise, and the tool by the bus."
        shown = figures("environment", **{name: chosen or "not set"})
        seen = f"{len(kinds)} kinds of devices, and {name} is {chosen or 'not set'}"
        yield warn(seen, words, f"export {name}={right}", evidence=shown)
    else:
        yield ok("indices follow the bus")


def _wrong_list(value: str, devices: int) -> str:
    if re.search(r"GPU-|MIG-", value):
        return ""  # UUIDs name what they mean
    if not re.fullmatch(r"\d{1,4}(,\d{1,4})*", value):
        return "holds something else than numbers and commas"
    numbers = [int(n) for n in value.split(",")]
    if numbers != sorted(set(numbers)):
        return "is not ascending, or names one twice"
    return f"there are {devices} devices" if devices and numbers[-1] >= devices else ""


def _place(device: Device) -> tuple[int, ...]:
    """0000:C1:00.0, as numbers."""
    return tuple(int(part, 16) for part in re.findall(r"[0-9a-fA-F]+", device.bus_id or ""))


CHECKS: tuple[Check, ...] = (
    of_devices(
        "devices.visible",
        visible,
        reads="the environment",
        source="CANN's environment variable reference; ms-swift NPU page, Q7",
        rule="FAIL for blanks, doubles, and numbers that are not there",
        fix="Ascending numbers with commas alone.",
    ),
    of_devices(
        "devices.order",
        order,
        reads="the vendor's tool, the environment",
        source="HAMi#933; CUDA's programming guide, CUDA_DEVICE_ORDER",
        rule="WARN when indices do not follow the bus, or kinds differ without CUDA_DEVICE_ORDER=PCI_BUS_ID",
        fix="Name devices by UUID; set CUDA_DEVICE_ORDER.",
    ),
)
