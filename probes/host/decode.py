"""Reading collectors' JSON into dataclasses: a value of the wrong type is "not said", never a crash later on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar

from envcheck.core.facts import Disk, Host, Interface, Limits, Network, Packages
from probes.host.requirements import list_unmet

ENTRIES_LIMIT = 4096
PYTHON = ("python", "executable", "architecture")
_KINDS: dict[str, type] = {"str | None": str, "int | None": int, "bool | None": bool}
T = TypeVar("T", Host, Disk, Limits)
Said = Mapping[str, Any] | None


def host(said: Said) -> Host | None:
    return _plain(Host, said)


def limits(said: Said) -> Limits | None:
    return _plain(Limits, said)


def disks(said: Said) -> dict[str, Disk] | None:
    return None if said is None else {path: disk for path, value in _entries(said) if (disk := _plain(Disk, value))}


def texts(said: Said) -> dict[str, str] | None:
    return None if said is None else {name: value for name, value in _entries(said) if isinstance(value, str)}


def truth(value: object) -> bool | None:
    return value if isinstance(value, bool) else None


def network(said: Said) -> Network | None:
    if said is None:
        return None
    named = said.get("hostname_resolves_to")
    listed = said.get("interfaces")
    return Network(
        resolves_to=_strings(named) if isinstance(named, list) else None,
        interfaces={name: _interface(value) for name, value in _entries(listed)} if isinstance(listed, dict) else {},
    )


def packages(said: Said) -> Packages | None:
    if not isinstance(said, dict):
        return None
    python, executable, machine = (v if isinstance(v := said.get(key), str) else None for key in PYTHON)
    listed = texts(said.get("packages") if isinstance(said.get("packages"), dict) else {}) or {}
    requires = said.get("requires")
    known = {name: _strings(lines) for name, lines in _entries(requires)} if isinstance(requires, dict) else None
    unmet = None if known is None else list_unmet(listed, known, python, machine)
    return Packages(python, executable, listed, unmet)


def environments(said: Said) -> dict[str, Packages]:
    listed = said.get("environments") if said else None
    if not isinstance(listed, dict):
        return {}
    return {name: found for name, value in _entries(listed) if (found := packages(value))}


def proofs(said: Said) -> dict[str, str]:
    """Digests by recipe."""
    listed = said.get("proofs") if said else None
    return (texts(listed) or {}) if isinstance(listed, dict) else {}


def _interface(value: object) -> Interface:
    if not isinstance(value, dict):
        return Interface()
    mtu = value.get("mtu")
    return Interface(_strings(value.get("addresses")), mtu if type(mtu) is int else None, truth(value.get("up")))


def _plain(kind: type[T], said: object) -> T | None:
    """`kind` with the values that are of the annotated types; bool is no int here."""
    if not isinstance(said, dict):
        return None
    return kind(**{f.name: said[f.name] for f in fields(kind) if type(said.get(f.name)) is _KINDS[str(f.type)]})


def _entries(said: Mapping[Any, Any]) -> list[tuple[str, Any]]:
    return [(str(name), value) for name, value in list(said.items())[:ENTRIES_LIMIT]]


def _strings(value: object) -> tuple[str, ...]:
    return tuple(v for v in value if isinstance(v, str)) if isinstance(value, list) else ()
