"""Devices as tiles of the HTML page, coloured by the values that the checks evaluate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from envcheck.checks.devices.health import count_ecc_errors
from envcheck.core.derived.device_processes import is_on_device
from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.findings import device_label
from envcheck.core.language import translate
from envcheck.core.messages import _
from envcheck.core.model import Device, Finding, Status
from envcheck.core.units import format_mib
from envcheck.report.summary import effective_status, safe
from envcheck.settings.thresholds import threshold_value

TILES_LIMIT = 128
OWNERS_LIMIT = 4


@dataclass(frozen=True)
class TileFigure:
    """A measured value, with the limit of the check that evaluates it; empty if there is none."""

    name: str
    value: str
    state: str = ""
    limit: str = ""


@dataclass(frozen=True)
class Tile:
    """One device; states are Status names in lower case, `used_percent` is of its memory.

    `figures` are named by the page's labels: memory, temperature, power, busy, errors (uncorrectable memory errors).
    """

    number: str
    name: str
    state: str
    health: str
    health_state: str
    used_percent: float | None
    memory_state: str
    figures: tuple[TileFigure, ...]
    owners: tuple[str, ...]


def build_tiles(facts: Facts, v: VendorFacts, findings: Sequence[Finding]) -> list[Tile]:
    """Return a tile for each device, the worst first."""
    bad = max(
        (effective_status(f) for f in findings if f.name == "devices.health" and f.device == v.name), default=Status.OK
    )
    counts = dict(count_ecc_errors(v))
    shown = [
        _build_tile(facts, v, d, max(bad, Status.WARN), counts.get(device_label(d)) or counts.get(str(d.npu)) or None)
        for d in v.devices
    ]
    return sorted(shown, key=lambda tile: -Status[tile.state.upper()])[:TILES_LIMIT]


def list_unlisted_addresses(v: VendorFacts) -> list[str]:
    """Return PCI addresses that no listed device has; empty if the two address formats cannot be compared."""
    listed = [_strip_domain(d.bus_id or "") for d in v.devices]
    on_bus = {_strip_domain(one): one for one in v.pci or ()}
    if not set(listed) <= set(on_bus):
        return []
    return [safe(one) for address, one in on_bus.items() if address not in listed][:TILES_LIMIT]


def _build_tile(facts: Facts, v: VendorFacts, d: Device, bad: Status, errors: int | None) -> Tile:
    health = Status.NOT_APPLICABLE if d.health is None else Status.OK if d.health.upper() == "OK" else bad
    held = (d.memory_used_mib or 0) > v.vendor.idle_memory_mib
    memory = Status.NOT_APPLICABLE if d.memory_used_mib is None else Status.WARN if held else Status.OK
    worn = Status.FAIL if errors else Status.NOT_APPLICABLE
    return Tile(
        number=device_label(d),
        name=safe(d.name or ""),
        state=max(health, memory, _rate_temperature(facts, d.temperature_c), worn).name.lower(),
        health=safe(d.health or ""),
        health_state=health.name.lower(),
        used_percent=_compute_percent(d.memory_used_mib, d.memory_total_mib),
        memory_state=memory.name.lower(),
        figures=tuple(_list_figures(facts, v, d, memory, errors)),
        owners=tuple(_list_owners(v, d)),
    )


def _list_figures(facts: Facts, v: VendorFacts, d: Device, memory: Status, errors: int | None) -> Iterator[TileFigure]:
    yield TileFigure(
        "memory", _format_memory(d), limit=format_mib(v.vendor.idle_memory_mib) if memory is Status.WARN else ""
    )
    warmth = _rate_temperature(facts, d.temperature_c)
    if d.temperature_c is None:
        yield TileFigure("temperature", "")
    else:
        name = "fail" if warmth is Status.FAIL else "warn"
        most = threshold_value(facts, f"devices.temperature.{name}_c")
        yield TileFigure("temperature", f"{d.temperature_c:g} °C", warmth.name.lower(), f"{most:g} °C")
    if d.power_w is not None:
        yield TileFigure(
            "power", f"{d.power_w:.0f} W", limit="" if d.power_limit_w is None else f"{d.power_limit_w:.0f} W"
        )
    if d.utilization_percent is not None:
        most = threshold_value(facts, "devices.utilization.warn_percent")
        yield TileFigure("busy", f"{d.utilization_percent:g} %", limit=f"{most:g} %")
    if errors:
        yield TileFigure("errors", str(errors), "fail")


def _rate_temperature(facts: Facts, temperature_c: float | None) -> Status:
    if temperature_c is None:
        return Status.NOT_APPLICABLE
    if temperature_c >= threshold_value(facts, "devices.temperature.fail_c"):
        return Status.FAIL
    return Status.WARN if temperature_c >= threshold_value(facts, "devices.temperature.warn_c") else Status.OK


def _format_memory(d: Device) -> str:
    """For example: 3.2 / 64 GiB."""
    used, total = (format_mib(n) if n is not None else "" for n in (d.memory_used_mib, d.memory_total_mib))
    shared = used.endswith("GiB") and total.endswith("GiB")
    return " / ".join(filter(None, (used.removesuffix(" GiB") if shared else used, total)))


def _compute_percent(used: float | None, total: float | None) -> float | None:
    """Percent, limited to what a bar can show."""
    return None if used is None or not total or total < 0 else round(min(100.0, max(0.0, 100 * used / total)), 1)


def _list_owners(v: VendorFacts, d: Device) -> Iterator[str]:
    mine = [p for p in v.processes or () if is_on_device(p, d)]
    for p in mine[:OWNERS_LIMIT]:
        size = "" if p.memory_mib is None else _(", {memory}", memory=format_mib(p.memory_mib))
        pid = "?" if p.pid is None else p.pid
        yield translate(_("{name} (pid {pid}{size})", name=safe(p.name or "?"), pid=pid, size=size))
    if len(mine) > OWNERS_LIMIT:
        yield f"+ {len(mine) - OWNERS_LIMIT}"


def _strip_domain(bus_id: str) -> str:
    """The address without the PCI domain, which tools print with four digits, eight digits or not at all."""
    return ":".join(bus_id.lower().split(":")[-2:])
