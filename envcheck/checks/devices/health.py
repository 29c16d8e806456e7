"""Checks of the device state: reported health, uncorrectable memory errors, temperature."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.core.check import Check, device_check
from envcheck.core.derived.device_details import follow_up_key
from envcheck.core.derived.key_value import blocks
from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.findings import (
    device_label,
    fail,
    format_question,
    name_devices,
    ok,
    quote_answer,
    quote_device,
    report_missing_rule,
    skip,
    unknown,
    vendor_commands,
    warn_or_fail,
)
from envcheck.core.messages import NOTHING, Message, _, join, mark
from envcheck.core.model import Device, Finding, Status, diagnose
from envcheck.settings.thresholds import threshold_value

FAN_SPEEDS = "sudo ipmitool sdr type Fan"  # the baseboard controller knows the fans, the vendor tools do not


def check_health(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """Every device reports that it is healthy."""
    told = [d for d in v.devices if d.health is not None]
    worst = [d for d in told if _health_status(v, d) is not Status.OK]
    if not v.vendor.health_words:
        yield report_missing_rule(v, _("health states"))
    elif not told and v.devices and v.vendor.health_optional:
        yield skip(_("this release of {tool} does not report the device health", tool=v.vendor.tool))
    elif not told:
        yield unknown(_("the vendor tool does not report the device health"))
    elif not worst:
        yield ok(_("{device_count} devices report {health}", device_count=len(told), health=told[0].health))
    else:
        grade = max(_health_status(v, d) for d in worst)
        first = max(worst, key=lambda d: _health_status(v, d))
        seen = _(
            "{devices}: {health}{codes}",
            devices=name_devices(worst),
            health=join(", ", sorted({str(d.health) for d in worst})),
            codes=_format_error_codes(v, worst),
        )
        words = _(
            "Look up the error code in the vendor's list. Exclude the device until the code is known to be harmless."
        )
        shown = quote_answer(v.tool, device_label(first).split()[0], first.health)
        yield warn_or_fail(grade, seen, diagnose(words, *vendor_commands(v, "health", first)), evidence=shown)


def _health_status(v: VendorFacts, device: Device) -> Status:
    return v.vendor.health_words.get(str(device.health).upper(), Status.UNKNOWN)


def check_ecc(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """No device reports uncorrectable memory errors."""
    told = dict(count_ecc_errors(v))
    bad = {number: n for number, n in told.items() if n > 0}
    if bad:
        first = next(iter(bad))
        seen = _(
            "device {bad}: {values} memory errors",
            bad=join(", ", bad),
            values=join(", ", (_("{n} uncorrectable", n=n) for n in bad.values())),
        )
        seen = seen if sum(bad.values()) > 1 else _("device {first}: 1 uncorrectable memory error", first=first)
        words = _(
            "Check whether the error count rises after a reset of the device. If it does, replace the device: "
            "its results may be wrong."
        )
        cards = [d for d in v.devices if device_label(d) == first][:1]
        commands = (*vendor_commands(v, "ecc", *cards), *vendor_commands(v, "reset", *cards))
        yield fail(seen, diagnose(words, *commands), evidence=_quote_ecc_errors(facts, v, first))
    elif told:
        yield ok(_("{device_count} devices report no uncorrectable memory errors", device_count=len(told)))
    elif v.vendor.ecc_optional:
        yield skip(_("the devices report no memory error counters (ECC is off or not shown)"))
    else:
        yield unknown(_("no device reports memory error counters"))


def check_temperature(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """No device is too hot to start."""
    told = [(d.temperature_c, d) for d in v.devices if d.temperature_c is not None]
    warm, hot = (threshold_value(facts, f"devices.temperature.{name}_c") for name in ("warn", "fail"))
    high = [d for degrees, d in told if degrees >= warm]
    if not told:
        yield unknown(_("the vendor tool does not report the temperature"))
        return
    top, first = max(told, key=lambda pair: pair[0])
    if high:
        words = _("Check the fans and the air flow: a device that is hot while idle throttles under load.")
        if any(_is_loaded(facts, v, device) for device in high):
            words = _("Check the fans, the air flow and the processes on the device: a device this hot throttles.")
        most = hot if top >= hot else warm
        seen = _(
            "{devices}: {temperature_c:g} °C (limit {limit_c:g} °C)",
            devices=name_devices(high),
            temperature_c=top,
            limit_c=most,
        )
        if len(high) > 1:
            seen = _(
                "{devices}: up to {temperature_c:g} °C (limit {limit_c:g} °C)",
                devices=name_devices(high),
                temperature_c=top,
                limit_c=most,
            )
        grade = Status.FAIL if top >= hot else Status.WARN
        yield warn_or_fail(
            grade,
            seen,
            diagnose(words, FAN_SPEEDS, *vendor_commands(v, "list")),
            evidence=quote_device(v, first, "temperature_c"),
        )
    else:
        yield ok(_("up to {top:g} °C", top=top))


def _is_loaded(facts: Facts, v: VendorFacts, device: Device) -> bool:
    """Whether the device computes, or a process uses its memory, as far as the tool reports."""
    busy = (device.utilization_percent or 0) >= threshold_value(facts, "devices.utilization.warn_percent")
    return busy or (device.memory_used_mib or 0) > v.vendor.idle_memory_mib


def _format_error_codes(v: VendorFacts, devices: list[Device]) -> Message:
    """The error codes in the output of -t health, if the chip reports them."""
    found: list[str] = []
    for device in devices:
        document = v.per_device.get(device.npu if device.npu is not None else -1, {}).get("health")
        codes = [block.get(v.vendor.error_code_key) for block in blocks(document)] if document else []
        found += [str(code) for code in codes if code is not None]
    return _(", error code {codes}", codes=join(", ", dict.fromkeys(found))) if found else NOTHING


def count_ecc_errors(v: VendorFacts) -> Iterator[tuple[str, int]]:
    """Yield device label and uncorrectable errors: from the table, or per NPU the double-bit counters of -t ecc."""
    for d in v.devices:
        if d.ecc_uncorrected is not None:
            yield device_label(d), d.ecc_uncorrected
    for number, kinds in v.per_device.items():
        pairs = [pair for block in (blocks(kinds["ecc"]) if "ecc" in kinds else []) for pair in block.items()]
        words = v.vendor.ecc_words
        doubles = [n for key, n in pairs if words and all(w in key for w in words) and type(n) is int]
        if doubles:
            yield str(number), max(doubles)


def _quote_ecc_errors(facts: Facts, v: VendorFacts, number: str) -> tuple[str, ...]:
    answer = facts.answers.get(follow_up_key(v, "ecc", number))
    if answer is None or not v.vendor.ecc_words:
        device = next((d for d in v.devices if device_label(d) == number), None)
        return quote_device(v, device, "ecc_uncorrected") if device else quote_answer(v.tool, "ncorr")
    counted = re.compile(rf"{re.escape(v.vendor.ecc_words[0])}.*:\s*[1-9]")
    line = next((ln.strip() for ln in answer.out.splitlines() if counted.search(ln)), "")
    return (f"$ {format_question(answer.key)}", line)


CHECKS: tuple[Check, ...] = (
    device_check(
        "devices.health",
        check_health,
        reads="npu-smi info, -t health",
        source=mark("npu-smi reference: values of Health"),
        rule="FAIL for Alarm and Critical, WARN for Warning, UNKNOWN for any other value",
        fix="Look up the error code, and exclude the device.",
    ),
    device_check(
        "devices.ecc",
        check_ecc,
        reads="the vendor tool, -t ecc",
        source=mark("npu-smi reference, nvidia-smi manual"),
        rule="FAIL if there is at least one uncorrectable error",
        fix="Reset the device; replace it if the errors return.",
    ),
    device_check(
        "devices.temperature",
        check_temperature,
        reads="the vendor tool",
        source=mark("margin below the vendors' slowdown temperature, set by envcheck"),
        rule="WARN at devices.temperature.warn_c, FAIL at devices.temperature.fail_c",
        fix="Check fans and air flow.",
    ),
)
