"""Checks of memory and utilization; if another check reports the processes, both are consequences of it."""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.checks.devices import occupancy_causes
from envcheck.core.check import Check, device_check
from envcheck.core.derived.device_details import follow_up_key, is_partitioned
from envcheck.core.derived.device_processes import find_processes, format_processes, process_inspect_commands
from envcheck.core.derived.key_value import blocks
from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.findings import (
    name_devices,
    ok,
    quote_answer,
    quote_device,
    report_missing_rule,
    skip,
    suppressed_by,
    unknown,
    vendor_commands,
    warn,
)
from envcheck.core.messages import _
from envcheck.core.model import Device, Finding, diagnose
from envcheck.settings.thresholds import threshold_value


def check_memory(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """Device memory is free, except what the driver uses on an idle device."""
    idle = v.vendor.idle_memory_mib
    told = [d for d in v.devices if d.memory_used_mib is not None]
    held = [d for d in told if (d.memory_used_mib or 0) > idle]
    if held and not idle:
        yield report_missing_rule(v, _("driver memory of an idle device"))
        return
    for cause, some in occupancy_causes.group_by_cause(held, occupancy_causes.make_memory_explainer(facts, v)):
        yield suppressed_by(cause, _memory_in_use_finding(v, some))
    if told and not held:
        yield ok(_("up to {used_mib} MiB in use on each device", used_mib=max(d.memory_used_mib or 0 for d in told)))
    elif not told:
        yield unknown(_("the vendor tool does not report the memory in use"))


def _memory_in_use_finding(v: VendorFacts, some: list[Device]) -> Finding:
    first = max(some, key=lambda d: d.memory_used_mib or 0)
    here = find_processes(v, some)
    owners = _(": {processes}", processes=format_processes(here)) if here else ""
    seen = _(
        "{devices}: {up_to}{memory_used_mib} MiB in use (idle: up to {idle_mib} MiB){owners}",
        devices=name_devices(some),
        up_to=_("up to ") if len(some) > 1 else "",
        memory_used_mib=first.memory_used_mib,
        idle_mib=v.vendor.idle_memory_mib,
        owners=owners,
    )
    words = _("Find the process that uses the memory and stop it; it may be a rank of a job that has ended.")
    look = (*process_inspect_commands(v, here), *vendor_commands(v, "list"))
    return warn(seen, diagnose(words, *look), evidence=quote_device(v, first, "memory_used_mib"))


def check_utilization(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The devices are idle."""
    if v.devices and all(is_partitioned(d) for d in v.devices):
        yield skip(_("a GPU in MIG mode reports no utilization"))
        return
    told = _list_utilization(v)
    most = threshold_value(facts, "devices.utilization.warn_percent")
    high = [d for d, percent in told if percent >= most]
    why = occupancy_causes.make_load_explainer(facts, v)
    for cause, some in occupancy_causes.group_by_cause(high, why):
        yield suppressed_by(cause, _busy_devices_finding(facts, v, [(d, percent) for d, percent in told if d in some]))
    if told and not high:
        yield ok(_("up to {percent:g} % busy", percent=max((percent for _unused, percent in told))))
    elif not told:
        yield unknown(_("the vendor tool does not report the utilization"))


def _busy_devices_finding(facts: Facts, v: VendorFacts, some: list[tuple[Device, float]]) -> Finding:
    first, top = max(some, key=lambda one: one[1])
    most = threshold_value(facts, "devices.utilization.warn_percent")
    seen = _(
        "{devices}: {up_to}{percent:g} % busy (limit {limit:g} %)",
        devices=name_devices((d for d, _unused in some)),
        up_to=_("up to ") if len(some) > 1 else "",
        percent=top,
        limit=most,
    )
    usages = _quote_usage(facts, v, first)
    shown = quote_device(v, first, "utilization_percent") if first.utilization_percent is not None else usages
    return warn(seen, diagnose(_("Wait for the other job, or stop it."), *vendor_commands(v, "list")), evidence=shown)


def _quote_usage(facts: Facts, v: VendorFacts, device: Device) -> tuple[str, ...]:
    """The line of the follow-up question `usages` that shows the utilization."""
    answer = facts.answers.get(follow_up_key(v, "usages", device.npu))
    lines = answer.text.splitlines() if answer else []
    line = next((text for text in lines if text.strip().lower().startswith(v.vendor.load_keys)), None)
    return quote_answer(answer, *([line.strip()] if line else []))


def _list_utilization(v: VendorFacts) -> list[tuple[Device, float]]:
    """Utilization in percent by device, from the table; if it shows none, of the first chip of each NPU."""
    if own := [(d, d.utilization_percent) for d in v.devices if d.utilization_percent is not None]:
        return own
    usages, firsts = _read_usage_details(v), {d.npu: d for d in reversed(v.devices)}
    return [(firsts[number], percent) for number, percent in usages.items() if number in firsts]


def _read_usage_details(v: VendorFacts) -> dict[int, float]:
    """Utilization in percent by NPU, from -t usages: some tables of npu-smi (310, A3) leave the column empty."""
    told = {
        number: [
            float(value)
            for block in blocks(kinds["usages"])
            for key, value in block.items()
            if key.lower().startswith(v.vendor.load_keys) and isinstance(value, int | float)
        ]
        for number, kinds in v.per_device.items()
        if "usages" in kinds
    }
    return {number: max(values) for number, values in told.items() if values}


CHECKS: tuple[Check, ...] = (
    device_check(
        "devices.memory",
        check_memory,
        reads="the vendor tool",
        source="vllm-ascend#1767, verl#332",
        rule="WARN above the driver's use of an idle device; blocked by the check that reports the processes",
        fix="Stop the process that uses the memory.",
    ),
    device_check(
        "devices.utilization",
        check_utilization,
        reads="the vendor tool",
        source="Paddle#11375",
        rule="WARN at devices.utilization.warn_percent; blocked by the check that reports the processes",
        fix="Wait for the other job to end, or stop it.",
    ),
)
