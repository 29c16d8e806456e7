"""What the collectors rdma, bus and hccl_rank_table of probes/host told, as frozen data; as in schemas.py."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from envcheck.core.facts import Facts
from probes.host.schemas import _bool, _dict, _int, _items, _list, _said, _text, _texts


@dataclass(frozen=True)
class Port:
    """Of an RDMA device; `gids`: index → type, those that are set."""

    state: str | None = None
    physical: str | None = None
    layer: str | None = None
    gids: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Rdma:
    """`devices`: name → (kind, ports by number); `verbs`: the nodes by which programs reach them."""

    devices: Mapping[str, tuple[str, Mapping[int, Port]]] = field(default_factory=dict)
    verbs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Slot:
    """A card's place on the bus: its IOMMU group's kind (none: no IOMMU); whether each switch above it redirects."""

    iommu: str | None = None
    switches: Mapping[str, bool | None] = field(default_factory=dict)


@dataclass(frozen=True)
class Ranked:
    """A card in a table of ranks."""

    server: str
    device: int | None
    address: str | None
    rank: int | None


@dataclass(frozen=True)
class RankTable:
    """`path` is None where no table is named; `error`: why it says nothing."""

    path: str | None = None
    error: str | None = None
    count: int | None = None
    servers: tuple[str, ...] = ()
    cards: tuple[Ranked, ...] = ()


def rdma(facts: Facts) -> Rdma | None:
    said = _said(facts, "rdma")
    if said is None or not isinstance(said.get("devices"), dict):
        return None
    return Rdma(_items(said["devices"], _device), _texts(said.get("verbs")))


def bus(facts: Facts) -> Mapping[str, Slot] | None:
    said = _said(facts, "bus")
    if said is None or not isinstance(said.get("cards"), dict):
        return None
    return _items(said["cards"], _slot)


def strange_cards(facts: Facts) -> Mapping[str, str]:
    """By bus id, vendor:device of accelerators whose vendor has no record."""
    said = _said(facts, "bus")
    found = _dict(said.get("strange")) if said else {}
    return {str(place)[:32]: text[:32] for place, value in found.items() if (text := _text(value))}


def rank_table(facts: Facts) -> RankTable | None:
    said = _said(facts, "rank_table")
    if said is None or not isinstance(said.get("servers"), list):
        return None
    servers = [_dict(one) for one in _list(said["servers"])]
    cards = tuple(
        Ranked(_text(s.get("id")) or "", _int(d.get("id")), _text(d.get("address")), _int(d.get("rank")))
        for s in servers
        for d in map(_dict, _list(s.get("devices")))
    )
    names = tuple(_text(s.get("id")) or "" for s in servers)
    return RankTable(_text(said.get("path")), _text(said.get("error")), _int(said.get("count")), names, cards)


def _device(said: Any) -> tuple[str, Mapping[int, Port]]:
    ports = _items(_dict(said).get("ports"), _port)
    return _text(_dict(said).get("kind")) or "", {int(n): port for n, port in ports.items() if n.isdecimal()}


def _port(said: Any) -> Port:
    said = _dict(said)
    gids = {int(n): kind for n, kind in _items(said.get("gids"), _text).items() if n.isdecimal()}
    return Port(_text(said.get("state")), _text(said.get("physical")), _text(said.get("layer")), gids)


def _slot(said: Any) -> Slot:
    switches = {port: _bool(one) for port, one in _dict(_dict(said).get("switches")).items()}
    return Slot(_text(_dict(said).get("iommu")), switches)
