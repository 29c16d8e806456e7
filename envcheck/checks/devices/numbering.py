"""Checks of device numbers: of the tool, of the device nodes, and of the list of visible devices."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from envcheck.core.check import Check, device_check
from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.findings import (
    device_label,
    fail,
    ok,
    quote_device,
    quote_values,
    report_missing_rule,
    report_unanswered,
    skip,
    unknown,
    vendor_commands,
    warn,
)
from envcheck.core.messages import NOTHING, Message, _, mark, verbatim
from envcheck.core.model import Device, Finding, diagnose, fix


def check_visible(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The list of visible devices is valid; a blank or an unknown number silently truncates it."""
    name = v.vendor.visible_env
    if not name:
        yield report_missing_rule(v, _("visible-device variable"))
        return
    if facts.environment is None:
        yield report_unanswered(facts, "ask environment")
        return
    value = facts.environment.get(name)
    if value is None:
        yield skip(_("{name} is not set: all devices are visible", name=name))
    elif wrong := _explain_invalid_list(value, len(v.devices)):
        words = _("Set ascending device numbers, separated by commas and without duplicates.")
        right = f"export {name}={','.join(map(str, range(len(v.devices))))}"
        yield fail(
            _("{variable}={value}: {wrong}", variable=name, value=value, wrong=wrong),
            fix(words, right),
            evidence=quote_values("environment", **{name: value}),
        )
    else:
        yield ok(verbatim(f"{name}={value}"))


def check_order(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """Device indices follow the PCI bus order; schedulers and frameworks with another order select other devices."""
    told = [d for d in v.devices if d.bus_id and d.index is not None]
    kinds = {d.name for d in v.devices}
    name, right = v.vendor.order_variable
    chosen = (facts.environment or {}).get(name)
    wrong = next((b for a, b in pairwise(told) if _bus_position(b) < _bus_position(a)), None)
    if len(told) < len(v.devices):
        yield unknown(_("the vendor tool does not report the index and bus ID of every device"))
    elif wrong:
        words = _("Select devices by UUID: the tool's device numbers do not follow the bus order.")
        shown = quote_device(v, wrong, "memory_total_mib")
        yield warn(
            _("device {index} has a lower bus ID than the device before it", index=device_label(wrong)),
            diagnose(words, *vendor_commands(v, "uuids")),
            evidence=shown,
        )
    elif len(kinds) > 1 and name and chosen != right:
        words = _(
            "Set this variable: by default {toolkit} numbers the fastest device first, but the "
            "vendor tool numbers devices by bus ID.",
            toolkit=v.vendor.toolkit,
        )
        shown = quote_values("environment", **{name: chosen or _("not set")})
        seen = _(
            "{kinds_count} device models found; {name} is {chosen}",
            kinds_count=len(kinds),
            name=name,
            chosen=chosen or _("not set"),
        )
        yield warn(seen, fix(words, f"export {name}={right}"), evidence=shown)
    else:
        yield ok(_("device indices follow the bus order"))


def _explain_invalid_list(value: str, devices: int) -> Message:
    if re.search(r"GPU-|MIG-", value):
        return NOTHING  # UUIDs do not depend on the order
    if not re.fullmatch(r"\d{1,4}(,\d{1,4})*", value):
        return _("contains characters other than digits and commas")
    numbers = [int(n) for n in value.split(",")]
    if numbers != sorted(set(numbers)):
        return _("is not in ascending order or has duplicates")
    return _("this machine has {devices} devices", devices=devices) if devices and numbers[-1] >= devices else NOTHING


def _bus_position(device: Device) -> tuple[int, ...]:
    """The numbers in an address such as 0000:C1:00.0."""
    return tuple(int(part, 16) for part in re.findall(r"[0-9a-fA-F]+", device.bus_id or ""))


CHECKS: tuple[Check, ...] = (
    device_check(
        "devices.visible",
        check_visible,
        reads="environment variables",
        source=mark("CANN environment variable reference; ms-swift NPU page, Q7"),
        rule="FAIL for blanks, duplicates and numbers of missing devices",
        fix="Use ascending numbers separated by commas.",
    ),
    device_check(
        "devices.order",
        check_order,
        reads="the vendor tool, environment variables",
        source=mark("HAMi#933; CUDA programming guide, CUDA_DEVICE_ORDER"),
        rule="WARN if the order differs, or models differ without CUDA_DEVICE_ORDER=PCI_BUS_ID",
        fix="Select devices by UUID, or set CUDA_DEVICE_ORDER.",
    ),
)
