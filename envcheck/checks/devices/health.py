"""How the devices are: their own word for it, memory errors, heat."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.core.check import Check, of_devices
from envcheck.core.derived.per_device import question_key
from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.findings import (
    command,
    commands,
    fail,
    graded,
    label,
    named,
    no_rule,
    of_device,
    ok,
    quote,
    skip,
    unknown,
)
from envcheck.core.key_value import blocks
from envcheck.core.model import Device, Finding, Status
from envcheck.settings.thresholds import limit


def health(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """Each device calls itself healthy."""
    told = [d for d in v.devices if d.health is not None]
    worst = [d for d in told if _health(v, d) is not Status.OK]
    if not v.vendor.health_words:
        yield no_rule(v, "words for the devices' health")
    elif not told:
        yield unknown("the tool shows no health")
    elif not worst:
        yield ok(f"{len(told)} devices say {told[0].health}")
    else:
        grade = max(_health(v, d) for d in worst)
        first = max(worst, key=lambda d: _health(v, d))
        seen = f"{named(worst)}: {', '.join(sorted({str(d.health) for d in worst}))}{_codes(v, worst)}"
        words = "Read the error code; leave the device out until the vendor's list of codes calls it harmless."
        shown = quote(v.tool, label(first).split()[0], first.health)
        yield graded(grade, seen, words, *commands(v, "health", first), evidence=shown)


def _health(v: VendorFacts, device: Device) -> Status:
    return v.vendor.health_words.get(str(device.health).upper(), Status.UNKNOWN)


def ecc(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """No device has counted uncorrectable memory errors."""
    told = dict(ecc_counts(v))
    bad = {number: n for number, n in told.items() if n > 0}
    if bad:
        first = next(iter(bad))
        seen = f"device {', '.join(bad)}: {', '.join(f'{n} uncorrectable' for n in bad.values())} memory errors"
        seen = seen if sum(bad.values()) > 1 else f"device {first}: 1 uncorrectable memory error"
        words = "Reset the device, and have it replaced if the count comes back: its results cannot be trusted."
        cards = [d for d in v.devices if label(d) == first][:1]
        yield fail(seen, words, *commands(v, "ecc", *cards), evidence=_ecc_evidence(facts, v, first))
    elif told:
        yield ok(f"{len(told)} devices count no uncorrectable memory error")
    elif v.vendor.ecc_optional:
        yield skip("the devices count no memory errors (ECC is off, or not shown)")
    else:
        yield unknown("no device tells its memory errors")


def temperature(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The devices are cool enough to start."""
    told = [(d.temperature_c, d) for d in v.devices if d.temperature_c is not None]
    warm, hot = (limit(facts, f"devices.temperature.{name}_c") for name in ("warn", "fail"))
    high = [d for degrees, d in told if degrees >= warm]
    if not told:
        yield unknown("the tool shows no temperature")
        return
    top, first = max(told, key=lambda one: one[0])
    if high:
        words = "Look at fans and air flow: a device that is hot when idle slows down under load."
        if any(_loaded(facts, v, device) for device in high):
            words = "Look at fans and air flow, and who is at work there: a device this hot slows down."
        most = hot if top >= hot else warm
        seen = f"{named(high)}: {'up to ' if len(high) > 1 else ''}{top:g} C (limit {most:g} C)"
        grade = Status.FAIL if top >= hot else Status.WARN
        yield graded(grade, seen, words, *commands(v, "list"), evidence=of_device(v, first, "temperature_c"))
    else:
        yield ok(f"at most {top:g} C")


def _loaded(facts: Facts, v: VendorFacts, device: Device) -> bool:
    """At work, or held by somebody, as far as the tool says."""
    busy = (device.utilization_percent or 0) >= limit(facts, "devices.utilization.warn_percent")
    return busy or (device.memory_used_mib or 0) > v.vendor.idle_memory_mib


def _codes(v: VendorFacts, devices: list[Device]) -> str:
    """The error codes of -t health, where the chip tells them."""
    said = []
    for device in devices:
        document = v.per_device.get(device.npu if device.npu is not None else -1, {}).get("health")
        told = [block.get(v.vendor.error_code_key) for block in blocks(document)] if document else []
        said += [str(code) for code in told if code is not None]
    return f", error code {', '.join(dict.fromkeys(said))}" if said else ""


def ecc_counts(v: VendorFacts) -> Iterator[tuple[str, int]]:
    """Uncorrectable errors by device's label: the table's own column, or by NPU the double-bit counters of -t ecc."""
    for d in v.devices:
        if d.ecc_uncorrected is not None:
            yield label(d), d.ecc_uncorrected
    for number, kinds in v.per_device.items():
        pairs = [pair for block in (blocks(kinds["ecc"]) if "ecc" in kinds else []) for pair in block.items()]
        words = v.vendor.ecc_words
        doubles = [n for key, n in pairs if words and all(w in key for w in words) and type(n) is int]
        if doubles:
            yield str(number), max(doubles)


def _ecc_evidence(facts: Facts, v: VendorFacts, number: str) -> tuple[str, ...]:
    answer = facts.answers.get(question_key(v, "ecc", number))
    if answer is None or not v.vendor.ecc_words:
        device = next((d for d in v.devices if label(d) == number), None)
        return of_device(v, device, "ecc_uncorrected") if device else quote(v.tool, "ncorr")
    counted = re.compile(rf"{re.escape(v.vendor.ecc_words[0])}.*:\s*[1-9]")
    line = next((ln.strip() for ln in answer.out.splitlines() if counted.search(ln)), "")
    return (f"$ {command(answer.key)}", line)


CHECKS: tuple[Check, ...] = (
    of_devices(
        "devices.health",
        health,
        reads="npu-smi info, -t health",
        source="npu-smi reference: words of Health",
        rule="FAIL for Alarm and Critical, WARN for Warning, UNKNOWN for other words",
        fix="Read the error code, leave the device out.",
    ),
    of_devices(
        "devices.ecc",
        ecc,
        reads="the vendor's tool, -t ecc",
        source="npu-smi reference, nvidia-smi manual",
        rule="FAIL for one uncorrectable error or more",
        fix="Reset the device; have it replaced when they come back.",
    ),
    of_devices(
        "devices.temperature",
        temperature,
        reads="the vendor's tool",
        source="our margin below the vendors' slow-down",
        rule="WARN from devices.temperature.warn_c, FAIL from devices.temperature.fail_c on",
        fix="Look at fans and air flow.",
    ),
)
