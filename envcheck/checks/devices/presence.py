"""Checks that the accelerators exist: any at all, and as many as the PCI bus shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import chain

from envcheck.core.check import Check, device_check, vendor_check
from envcheck.core.derived.device_count import count_devices
from envcheck.core.derived.device_listing import reports_no_device
from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.findings import (
    NAMED_LIMIT,
    fail,
    ok,
    pci_commands,
    quote_answer,
    quote_nothing,
    skipped_because,
    unknown,
    vendor_commands,
    warn,
)
from envcheck.core.messages import Message, _, join, ngettext
from envcheck.core.model import Finding, diagnose


def check_present(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The vendor tool lists at least one device."""
    names = Counter(d.name or "unnamed" for d in v.devices)
    if v.devices:
        yield ok(join(", ", (_("{count} × {name}", count=count, name=name) for name, count in names.items())))
    elif v.document and v.document.truncated:
        yield skipped_because("driver.whole_answer")
    elif v.document is not None and (v.document.kind not in ("unknown", "error") or reports_no_device(v)):
        elsewhere = _("; lspci shows {pci_count}", pci_count=len(v.pci)) if v.pci else ""
        shown = quote_answer(v.tool) if reports_no_device(v) else _quote_bus(facts, v)
        seen, words = (
            _("{tool} lists no devices{elsewhere}", tool=v.vendor.tool, elsewhere=elsewhere),
            _("Check the PCI bus and the driver."),
        )
        yield fail(seen, diagnose(words, *chain(*pci_commands(facts, v))), evidence=shown)
    elif v.pci or v.nodes:
        yield skipped_because(
            "driver.tool", _("{pci_count} found on the PCI bus or in /dev", pci_count=len(v.pci or v.nodes or ()))
        )
    elif v.pci is not None and v.nodes is not None:
        seen = _("no {title} device found in this machine", title=v.vendor.title)
        shown = quote_nothing(v.vendor.pci_questions[0].key)
        yield fail(
            seen,
            diagnose(_("Choose another --device, or check the PCI bus."), *chain(*pci_commands(facts, v))),
            evidence=shown,
        )
    else:
        yield skipped_because("driver.tool", _("lspci and /dev list no devices either"))


def check_count(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """lspci, /dev and the vendor tool report the same number of devices."""
    number = count_devices(facts, v)
    seen = number.message
    if not number.pci and not number.nodes:
        yield unknown(_("cannot determine the expected number of devices: lspci and /dev returned nothing"))
        return
    if v.document and v.document.truncated:
        yield skipped_because("driver.whole_answer", seen)
    elif number.is_some_missing:
        words = _(
            "Check the kernel log for bus errors of the missing device. Then power-cycle the host (a "
            "reboot may not be enough), or reseat the card."
        )
        listings, kernel_log = pci_commands(facts, v)
        yield fail(
            _describe_missing_devices(v, seen),
            diagnose(words, *kernel_log, *listings, *vendor_commands(v, "list")),
            evidence=_quote_missing_device(facts, v),
        )
    elif number.nodes is not None and number.nodes < number.listed:
        words = _(
            "Pass the missing device nodes to the container: the tool lists more devices than this process can open."
        )
        shown = quote_answer(facts.answers.get(v.vendor.node_question.key))
        yield warn(seen, diagnose(words, f"ls -l {v.vendor.node_pattern}"), evidence=shown)
    else:
        yield ok(seen)


def _find_missing_addresses(v: VendorFacts) -> list[str]:
    """The bus addresses that the tool does not list; empty if the tool shows no addresses."""
    listed = [str(d.bus_id).lower() for d in v.devices if d.bus_id]
    return [bus for bus in v.pci or () if not any(known.endswith(bus.lower()) for known in listed)] if listed else []


def _find_missing_numbers(v: VendorFacts, count: int) -> list[int]:
    """The NPU ids (slot numbers) that the tool skips; empty if they do not account for all missing devices."""
    listed = {d.npu for d in v.devices}
    if None in listed:
        return []  # other tools renumber the devices that are left
    skipped = [number for number in range(len(listed) + count) if number not in listed]
    return skipped if len(skipped) == count else []


def _describe_missing_devices(v: VendorFacts, counts: Message) -> Message:
    # lspci leaves out the domain where it is 0000
    lost = [bus if bus.count(":") == 2 else f"0000:{bus}" for bus in _find_missing_addresses(v)]
    numbers = _find_missing_numbers(v, len(lost))
    named = [f"NPU {number} ({bus})" for number, bus in zip(numbers, sorted(lost), strict=False)]
    named = named or [_("device {address}", address=bus) for bus in lost]
    if not lost:
        return counts
    return ngettext(
        "{devices} is on the PCI bus but missing from {tool} ({counts})",
        "{devices} are on the PCI bus but missing from {tool} ({counts})",
        len(lost),
        devices=join(", ", named[:NAMED_LIMIT]),
        tool=v.vendor.tool,
        counts=counts,
    )


def _quote_missing_device(facts: Facts, v: VendorFacts) -> tuple[str, ...]:
    """The PCI line of the device that the tool does not list."""
    lost = _find_missing_addresses(v)
    return _quote_bus(facts, v, lost[0]) if lost else ()


def _quote_bus(facts: Facts, v: VendorFacts, *words: str) -> tuple[str, ...]:
    """The lines of lspci with these words, from the answer that has them."""
    given = [answer for question in v.vendor.pci_questions if (answer := facts.answers.get(question.key))]
    best = next((answer for answer in given if answer.out and all(word in answer.out for word in words)), None)
    return quote_answer(best or next(iter(given), None), *words)


CHECKS: tuple[Check, ...] = (
    vendor_check(
        "devices.present",
        check_present,
        reads="the vendor tool, lspci, /dev",
        source="leptonai/gpud#944",
        rule="FAIL if no device is listed",
        fix="Check the PCI bus and the driver.",
    ),
    device_check(
        "devices.count",
        check_count,
        reads="the vendor tool, lspci, /dev",
        source="leptonai/gpud#944, vllm-ascend#12980",
        rule="FAIL if the tool lists fewer than the bus or /dev; WARN if device nodes are missing",
        fix="Power-cycle the host, or pass the device nodes to the container.",
    ),
)
