"""What the devices hold and do; where a process on them is told by another check, it follows from that."""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.checks.devices import conflicts
from envcheck.core.check import Check, of_devices
from envcheck.core.derived.device_processes import find_processes, format_processes, inspect_commands
from envcheck.core.derived.per_device import is_cut, question_key
from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.findings import commands, named, no_rule, of_device, ok, quote, skip, told_by, unknown, warn
from envcheck.core.key_value import blocks
from envcheck.core.model import Device, Finding
from envcheck.settings.thresholds import limit


def memory(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """Nobody holds memory of the devices beyond what the driver itself takes."""
    idle = v.vendor.idle_memory_mib
    told = [d for d in v.devices if d.memory_used_mib is not None]
    held = [d for d in told if (d.memory_used_mib or 0) > idle]
    if held and not idle:
        yield no_rule(v, "memory that an idle device's driver holds")
        return
    for cause, some in conflicts.by_cause(held, conflicts.memory_cause(facts, v)):
        yield told_by(cause, _held(v, some))
    if told and not held:
        yield ok(f"at most {max(d.memory_used_mib or 0 for d in told)} MiB in use of each")
    elif not told:
        yield unknown("the tool shows no memory in use")


def _held(v: VendorFacts, some: list[Device]) -> Finding:
    first = max(some, key=lambda d: d.memory_used_mib or 0)
    here = find_processes(v, some)
    owners = f": {format_processes(here)}" if here else ""
    seen = f"{named(some)}: {'up to ' if len(some) > 1 else ''}{first.memory_used_mib} MiB in use{owners}"
    words = "Find the owner and stop it; ended jobs leave ranks behind."
    look = (*inspect_commands(v, here), *commands(v, "list"))
    return warn(seen, words, *look, evidence=of_device(v, first, "memory_used_mib"))


def utilization(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The devices are not at work."""
    if v.devices and all(is_cut(d) for d in v.devices):
        yield skip("a GPU that is cut into MIG instances shows none")
        return
    told = _busy(v)
    most = limit(facts, "devices.utilization.warn_percent")
    high = [d for d, percent in told if percent >= most]
    why = conflicts.load_cause(facts, v)
    for cause, some in conflicts.by_cause(high, why):
        yield told_by(cause, _at_work(facts, v, [(d, percent) for d, percent in told if d in some]))
    if told and not high:
        yield ok(f"at most {max(percent for _, percent in told):g} % busy")
    elif not told:
        yield unknown("the tool shows no utilization")


def _at_work(facts: Facts, v: VendorFacts, some: list[tuple[Device, float]]) -> Finding:
    first, top = max(some, key=lambda one: one[1])
    most = limit(facts, "devices.utilization.warn_percent")
    seen = f"{named(d for d, _ in some)}: {'up to ' if len(some) > 1 else ''}{top:g} % busy (limit {most:g} %)"
    usages = _usage_evidence(facts, v, first)
    shown = of_device(v, first, "utilization_percent") if first.utilization_percent is not None else usages
    return warn(seen, "Wait for the other job, or stop it.", *commands(v, "list"), evidence=shown)


def _usage_evidence(facts: Facts, v: VendorFacts, device: Device) -> tuple[str, ...]:
    """The line of the follow-up question `usages` that tells the load."""
    answer = facts.answers.get(question_key(v, "usages", device.npu))
    lines = answer.text.splitlines() if answer else []
    line = next((text for text in lines if text.strip().lower().startswith(v.vendor.load_keys)), None)
    return quote(answer, *([line.strip()] if line else []))


def _busy(v: VendorFacts) -> list[tuple[Device, float]]:
    """Per cent at work by device, as the table says; where it says none, of the first chip of each NPU."""
    if own := [(d, d.utilization_percent) for d in v.devices if d.utilization_percent is not None]:
        return own
    usages, firsts = _usages(v), {d.npu: d for d in reversed(v.devices)}
    return [(firsts[number], percent) for number, percent in usages.items() if number in firsts]


def _usages(v: VendorFacts) -> dict[int, float]:
    """Per cent at work by NPU, from -t usages: some tables of npu-smi (310, A3) leave the column empty."""
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
    of_devices(
        "devices.memory",
        memory,
        reads="the vendor's tool",
        source="vllm-ascend#1767, verl#332",
        rule="WARN above what the driver holds of an idle device; follows from the check that tells of its processes",
        fix="Stop the owner.",
    ),
    of_devices(
        "devices.utilization",
        utilization,
        reads="the vendor's tool",
        source="Paddle#11375",
        rule="WARN from devices.utilization.warn_percent on; follows from the check that tells of its processes",
        fix="Wait for the other job or stop it.",
    ),
)
