"""The answers of the collectors rdma, bus and hccl_rank_table as frozen data; see schemas.py."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from envcheck.core.facts import Facts
from probes.host.schemas import (
    _as_bool,
    _as_dict,
    _as_int,
    _as_list,
    _as_text,
    _as_texts,
    _decode_items,
    _read_collector,
)


@dataclass(frozen=True)
class RdmaPortState:
    """The state of an RDMA port; `gids` are the GID types by index, only those that are set."""

    state: str | None = None
    physical: str | None = None
    layer: str | None = None
    gids: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True)
class RdmaDevices:
    """`devices`: name → (kind, ports by number); `verbs`: the device nodes /dev/infiniband/uverbsN."""

    devices: Mapping[str, tuple[str, Mapping[int, RdmaPortState]]] = field(default_factory=dict)
    verbs: tuple[str, ...] = ()


@dataclass(frozen=True)
class PcieSlot:
    """A card's PCIe position: the type of its IOMMU group (none: no IOMMU), and whether each switch above it
    redirects."""

    iommu: str | None = None
    switches: Mapping[str, bool | None] = field(default_factory=dict)


@dataclass(frozen=True)
class RankedDevice:
    """A device in a rank table."""

    server: str
    device: int | None
    address: str | None
    rank: int | None


@dataclass(frozen=True)
class RankTable:
    """A rank table; `path` is None if none is set, `error` is why it cannot be used."""

    path: str | None = None
    error: str | None = None
    count: int | None = None
    servers: tuple[str, ...] = ()
    cards: tuple[RankedDevice, ...] = ()


def read_rdma(facts: Facts) -> RdmaDevices | None:
    """Return the RDMA devices, None if they were not collected."""
    value = _read_collector(facts, "rdma")
    if value is None or not isinstance(value.get("devices"), dict):
        return None
    return RdmaDevices(_decode_items(value["devices"], _decode_rdma_device), _as_texts(value.get("verbs")))


def read_bus(facts: Facts) -> Mapping[str, PcieSlot] | None:
    """Return the PCIe positions of the cards by bus id, None if they were not collected."""
    value = _read_collector(facts, "bus")
    if value is None or not isinstance(value.get("cards"), dict):
        return None
    return _decode_items(value["cards"], _decode_slot)


def read_unknown_accelerators(facts: Facts) -> Mapping[str, str]:
    """Return vendor:device by bus id for accelerators of vendors without a record."""
    value = _read_collector(facts, "bus")
    found = _as_dict(value.get("strange")) if value else {}
    return {str(place)[:32]: text[:32] for place, value in found.items() if (text := _as_text(value))}


def read_rank_table(facts: Facts) -> RankTable | None:
    """Return the rank table, None if it was not collected."""
    value = _read_collector(facts, "rank_table")
    return None if value is None else decode_rank_table(value)


def decode_rank_table(value: Mapping[str, Any]) -> RankTable | None:
    """Return the rank table that the collector describes, None if it is of another format."""
    if not isinstance(value.get("servers"), list):
        return None
    servers = [_as_dict(one) for one in _as_list(value["servers"])]
    cards = tuple(
        RankedDevice(
            _as_text(s.get("id")) or "", _as_int(d.get("id")), _as_text(d.get("address")), _as_int(d.get("rank"))
        )
        for s in servers
        for d in map(_as_dict, _as_list(s.get("devices")))
    )
    names = tuple(_as_text(s.get("id")) or "" for s in servers)
    return RankTable(
        _as_text(value.get("path")), _as_text(value.get("error")), _as_int(value.get("count")), names, cards
    )


def _decode_rdma_device(value: Any) -> tuple[str, Mapping[int, RdmaPortState]]:
    ports = _decode_items(_as_dict(value).get("ports"), _decode_port)
    return _as_text(_as_dict(value).get("kind")) or "", {int(n): port for n, port in ports.items() if n.isdecimal()}


def _decode_port(value: Any) -> RdmaPortState:
    value = _as_dict(value)
    gids = {int(n): kind for n, kind in _decode_items(value.get("gids"), _as_text).items() if n.isdecimal()}
    return RdmaPortState(
        _as_text(value.get("state")), _as_text(value.get("physical")), _as_text(value.get("layer")), gids
    )


def _decode_slot(value: Any) -> PcieSlot:
    switches = {port: _as_bool(one) for port, one in _as_dict(_as_dict(value).get("switches")).items()}
    return PcieSlot(_as_text(_as_dict(value).get("iommu")), switches)
