"""Decodes the collectors' JSON into dataclasses; a value of a wrong type becomes None instead of an error later."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar

from envcheck.core.facts import Disk, Interface, Limits, Network, Packages, SystemFacts
from probes.host.requirements import list_unmet

ENTRIES_LIMIT = 4096
PYTHON = ("python", "executable", "architecture")
_KINDS: dict[str, type] = {"str | None": str, "int | None": int, "bool | None": bool}
T = TypeVar("T", SystemFacts, Disk, Limits)
CollectorJson = Mapping[str, Any] | None


def decode_host(answer: CollectorJson) -> SystemFacts | None:
    """Return the system facts."""
    return _decode_record(SystemFacts, answer)


def decode_limits(answer: CollectorJson) -> Limits | None:
    """Return the resource limits."""
    return _decode_record(Limits, answer)


def decode_disks(answer: CollectorJson) -> dict[str, Disk] | None:
    """Return the disks by path; None if they were not collected."""
    return (
        None
        if answer is None
        else {path: disk for path, value in _limit_entries(answer) if (disk := _decode_record(Disk, value))}
    )


def decode_texts(answer: CollectorJson) -> dict[str, str] | None:
    """Return the text values by name; None if they were not collected."""
    return None if answer is None else {name: value for name, value in _limit_entries(answer) if isinstance(value, str)}


def decode_bool(value: object) -> bool | None:
    """Return the value if it is a bool, else None."""
    return value if isinstance(value, bool) else None


def decode_network(answer: CollectorJson) -> Network | None:
    """Return the network facts."""
    if answer is None:
        return None
    named = answer.get("hostname_resolves_to")
    listed = answer.get("interfaces")
    return Network(
        resolves_to=_keep_strings(named) if isinstance(named, list) else None,
        interfaces={name: _decode_interface(value) for name, value in _limit_entries(listed)}
        if isinstance(listed, dict)
        else {},
    )


def decode_packages(answer: CollectorJson) -> Packages | None:
    """Return a Python with its packages, and the unmet requirements of those that training needs."""
    if not isinstance(answer, dict):
        return None
    python, executable, machine = (v if isinstance(v := answer.get(key), str) else None for key in PYTHON)
    listed = decode_texts(answer.get("packages") if isinstance(answer.get("packages"), dict) else {}) or {}
    requires = answer.get("requires")
    known = (
        {name: _keep_strings(lines) for name, lines in _limit_entries(requires)} if isinstance(requires, dict) else None
    )
    unmet = None if known is None else list_unmet(listed, known, python, machine)
    return Packages(python, executable, listed, unmet)


def decode_environments(answer: CollectorJson) -> dict[str, Packages]:
    """Return the packages of each of envcheck's environments by recipe."""
    listed = answer.get("environments") if answer else None
    if not isinstance(listed, dict):
        return {}
    return {name: found for name, value in _limit_entries(listed) if (found := decode_packages(value))}


def decode_proofs(answer: CollectorJson) -> dict[str, str]:
    """Return the digests of the verified recipes."""
    listed = answer.get("proofs") if answer else None
    return (decode_texts(listed) or {}) if isinstance(listed, dict) else {}


def _decode_interface(value: object) -> Interface:
    if not isinstance(value, dict):
        return Interface()
    mtu = value.get("mtu")
    return Interface(
        _keep_strings(value.get("addresses")), mtu if type(mtu) is int else None, decode_bool(value.get("up"))
    )


def _decode_record(kind: type[T], answer: object) -> T | None:
    """Return an instance of `kind` with the values of the annotated types; a bool is not an int."""
    if not isinstance(answer, dict):
        return None
    return kind(**{f.name: answer[f.name] for f in fields(kind) if type(answer.get(f.name)) is _KINDS[str(f.type)]})


def _limit_entries(answer: Mapping[Any, Any]) -> list[tuple[str, Any]]:
    return [(str(name), value) for name, value in list(answer.items())[:ENTRIES_LIMIT]]


def _keep_strings(value: object) -> tuple[str, ...]:
    return tuple(v for v in value if isinstance(v, str)) if isinstance(value, list) else ()
