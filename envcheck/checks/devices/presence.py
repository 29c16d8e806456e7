"""The accelerators themselves: they are there, and as many as the bus shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from envcheck.core.check import Check, of_devices, of_vendor
from envcheck.core.derived.device_count import count_devices
from envcheck.core.derived.driver import no_device
from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.findings import commands, fail, follows, nothing, ok, quote, unknown, warn
from envcheck.core.model import Finding


def present(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The tool lists at least one device."""
    names = Counter(d.name or "unnamed" for d in v.devices)
    if v.devices:
        yield ok(", ".join(f"{count} × {name}" for name, count in names.items()))
    elif v.document and v.document.truncated:
        yield follows("driver.whole_answer")
    elif v.document is not None and (v.document.kind not in ("unknown", "error") or no_device(v)):
        elsewhere = f", lspci {len(v.pci)}" if v.pci else ""
        shown = quote(v.tool) if no_device(v) else quote(facts.answers.get(v.vendor.presence[0].key))
        seen, words = f"{v.vendor.tool} lists no device{elsewhere}", "Look at the bus and the driver."
        yield fail(seen, words, *commands(v, "pci"), evidence=shown)
    elif v.pci or v.nodes:
        yield follows("driver.tool", f"{len(v.pci or v.nodes or ())} on the bus or in /dev")
    elif v.pci is not None and v.nodes is not None:
        seen = f"no {v.vendor.title} device is in this machine"
        shown = nothing(v.vendor.presence[0].key)
        yield fail(seen, "Choose another --device, or look at the bus.", *commands(v, "pci"), evidence=shown)
    else:
        yield follows("driver.tool", "lspci and /dev list none either")


def count(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """lspci, /dev and the tool agree on how many there are."""
    number = count_devices(facts, v)
    seen = str(number)
    if not number.pci and not number.nodes:
        yield unknown("neither lspci nor /dev says how many there should be")
        return
    if v.document and v.document.truncated:
        yield follows("driver.whole_answer", seen)
    elif number.some_missing:
        words = "Look for a bus error of the device that fell off, then reseat it or power-cycle (a reboot may not do)."
        yield fail(seen, words, *commands(v, "pci"), *commands(v, "list"), evidence=_missing(facts, v))
    elif number.nodes is not None and number.nodes < number.listed:
        words = "Give the container its device nodes: the tool lists more than this process may open."
        shown = quote(facts.answers.get(v.vendor.presence[1].key))
        yield warn(seen, words, f"ls -l {v.vendor.node_pattern}", evidence=shown)
    else:
        yield ok(seen)


def _missing(facts: Facts, v: VendorFacts) -> tuple[str, ...]:
    """The bus line that the tool does not list."""
    listed = [str(d.bus_id).lower() for d in v.devices if d.bus_id]
    lost = next((bus for bus in v.pci or () if not any(known.endswith(bus.lower()) for known in listed)), None)
    return quote(facts.answers.get(v.vendor.presence[0].key), lost) if lost and listed else ()


CHECKS: tuple[Check, ...] = (
    of_vendor(
        "devices.present",
        present,
        reads="the vendor's tool, lspci, /dev",
        source="leptonai/gpud#944",
        rule="FAIL when there is none",
        fix="Look at the bus and the driver.",
    ),
    of_devices(
        "devices.count",
        count,
        reads="the vendor's tool, lspci, /dev",
        source="leptonai/gpud#944, vllm-ascend#12980",
        rule="FAIL when the tool lists fewer than bus or /dev; WARN when nodes are missing",
        fix="Power-cycle; give the container its nodes.",
    ),
)
