"""The devices as the page draws them: a tile each, coloured by the figures that the checks judge by."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from envcheck.checks.devices.health import ecc_counts
from envcheck.core.derived.device_processes import is_on
from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.findings import label
from envcheck.core.model import Device, Finding, Status
from envcheck.core.units import mib
from envcheck.report.summary import counted, safe
from envcheck.settings.thresholds import limit

TILES_LIMIT = 128
OWNERS_LIMIT = 4


@dataclass(frozen=True)
class Figure:
    """A measured value, with the limit of the check that judges it, `""` where there is none."""

    name: str
    value: str
    state: str = ""
    limit: str = ""


@dataclass(frozen=True)
class Tile:
    """One device; states are Status's names in lower case, `used_percent` is of its memory.

    `figures` are named by the page's words: memory, temperature, power, busy, errors (uncorrectable ones).
    """

    number: str
    name: str
    state: str
    health: str
    health_state: str
    used_percent: float | None
    memory_state: str
    figures: tuple[Figure, ...]
    owners: tuple[str, ...]


def tiles(facts: Facts, v: VendorFacts, findings: Sequence[Finding]) -> list[Tile]:
    """The worst first."""
    bad = max((counted(f) for f in findings if f.name == "devices.health" and f.device == v.name), default=Status.OK)
    counts = dict(ecc_counts(v))
    shown = [
        _tile(facts, v, d, max(bad, Status.WARN), counts.get(label(d)) or counts.get(str(d.npu)) or None)
        for d in v.devices
    ]
    return sorted(shown, key=lambda tile: -Status[tile.state.upper()])[:TILES_LIMIT]


def ghosts(v: VendorFacts) -> list[str]:
    """Addresses on the bus that no listed device has; none where the two do not speak of addresses alike."""
    listed = [_address(d.bus_id or "") for d in v.devices]
    on_bus = {_address(one): one for one in v.pci or ()}
    if not set(listed) <= set(on_bus):
        return []
    return [safe(one) for address, one in on_bus.items() if address not in listed][:TILES_LIMIT]


def _tile(facts: Facts, v: VendorFacts, d: Device, bad: Status, errors: int | None) -> Tile:
    health = Status.NOT_APPLICABLE if d.health is None else Status.OK if d.health.upper() == "OK" else bad
    held = (d.memory_used_mib or 0) > v.vendor.idle_memory_mib
    memory = Status.NOT_APPLICABLE if d.memory_used_mib is None else Status.WARN if held else Status.OK
    worn = Status.FAIL if errors else Status.NOT_APPLICABLE
    return Tile(
        number=label(d),
        name=safe(d.name or ""),
        state=max(health, memory, _warmth(facts, d.temperature_c), worn).name.lower(),
        health=safe(d.health or ""),
        health_state=health.name.lower(),
        used_percent=_share(d.memory_used_mib, d.memory_total_mib),
        memory_state=memory.name.lower(),
        figures=tuple(_figures(facts, v, d, memory, errors)),
        owners=tuple(_owners(v, d)),
    )


def _figures(facts: Facts, v: VendorFacts, d: Device, memory: Status, errors: int | None) -> Iterator[Figure]:
    yield Figure("memory", _memory(d), limit=mib(v.vendor.idle_memory_mib) if memory is Status.WARN else "")
    warmth = _warmth(facts, d.temperature_c)
    if d.temperature_c is None:
        yield Figure("temperature", "")
    else:
        name = "fail" if warmth is Status.FAIL else "warn"
        most = limit(facts, f"devices.temperature.{name}_c")
        yield Figure("temperature", f"{d.temperature_c:g} °C", warmth.name.lower(), f"{most:g} °C")
    if d.power_w is not None:
        yield Figure("power", f"{d.power_w:.0f} W", limit="" if d.power_limit_w is None else f"{d.power_limit_w:.0f} W")
    if d.utilization_percent is not None:
        most = limit(facts, "devices.utilization.warn_percent")
        yield Figure("busy", f"{d.utilization_percent:g} %", limit=f"{most:g} %")
    if errors:
        yield Figure("errors", str(errors), "fail")


def _warmth(facts: Facts, temperature_c: float | None) -> Status:
    if temperature_c is None:
        return Status.NOT_APPLICABLE
    if temperature_c >= limit(facts, "devices.temperature.fail_c"):
        return Status.FAIL
    return Status.WARN if temperature_c >= limit(facts, "devices.temperature.warn_c") else Status.OK


def _memory(d: Device) -> str:
    """As in 3.2 / 64 GiB."""
    used, total = (mib(n) if n is not None else "" for n in (d.memory_used_mib, d.memory_total_mib))
    shared = used.endswith("GiB") and total.endswith("GiB")
    return " / ".join(filter(None, (used.removesuffix(" GiB") if shared else used, total)))


def _share(used: float | None, total: float | None) -> float | None:
    """Percent, within what a bar can show."""
    return None if used is None or not total or total < 0 else round(min(100.0, max(0.0, 100 * used / total)), 1)


def _owners(v: VendorFacts, d: Device) -> Iterator[str]:
    mine = [p for p in v.processes or () if is_on(p, d)]
    for p in mine[:OWNERS_LIMIT]:
        size = "" if p.memory_mib is None else f", {mib(p.memory_mib)}"
        yield f"{safe(p.name or '?')} (pid {'?' if p.pid is None else p.pid}{size})"
    if len(mine) > OWNERS_LIMIT:
        yield f"+ {len(mine) - OWNERS_LIMIT}"


def _address(bus_id: str) -> str:
    """Without the domain, which some tools print in four digits, some in eight, some not at all."""
    return ":".join(bus_id.lower().split(":")[-2:])
