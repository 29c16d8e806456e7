"""Reading answers into Facts, and what answers open; judges nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from envcheck.collect import documents as reading
from envcheck.collect.questions import HOST_QUESTIONS
from envcheck.core.facts import Facts, VendorFacts, Wanted
from envcheck.core.model import Answer, Device, Document, Outcome, Process, Question
from envcheck.core.vendor import PER_DEVICE, PER_DIE, Vendor, die_id
from envcheck.vendors import VENDORS
from probes.host import container, decode

DEVICES_LIMIT = 256  # no host has more; a forged list must not start a million processes
READ = (Outcome.ANSWERED, Outcome.FAILED)  # what failed may have said why
AS_TEXT = ("tls",)  # its check reads the answers themselves, which hold no plain pairs
ACCELERATORS = tuple(name for name in VENDORS if VENDORS[name].devices)


def read_facts(answers: Mapping[str, Answer], device: str = "auto", wanted: Wanted | None = None) -> Facts:
    """The facts that the answers hold; the same for a machine and for a recording of it."""
    found = [VENDORS[name] for name in candidates(device) if device != "auto" or is_present(VENDORS[name], answers)]
    told = {
        name: _told(answers, name)
        for name in ("host", "disks", "limits", "environment", "network", "clock", "packages")
    }
    clock = told["clock"]
    return Facts(
        device=device,
        vendors=tuple(_vendor_facts(vendor, answers) for vendor in found),
        host=decode.host(told["host"]),
        disks=decode.disks(told["disks"]),
        limits=decode.limits(told["limits"]),
        environment=decode.texts(told["environment"]),
        network=decode.network(told["network"]),
        clock_synchronised=decode.truth(clock.get("synchronised")) if clock else None,
        packages=decode.packages(told["packages"]),
        environments=decode.environments(told["packages"]),
        proofs=decode.proofs(told["packages"]),
        engine=container.parse(docker) if (docker := answers.get(HOST_QUESTIONS[-1].key)) else None,
        answers=answers,
        wanted=wanted,
    )


def is_present(vendor: Vendor, answers: Mapping[str, Answer]) -> bool:
    """Whether such a card is in the machine: lspci or /dev lists one, or the tool answers where lspci cannot tell."""
    lspci, nodes = (answers.get(question.key) for question in vendor.presence)
    if (lspci and lspci.ok and reading.bus_ids(vendor, lspci)) or (nodes and nodes.ok):
        return True
    told = lspci is not None and lspci.outcome in (Outcome.ANSWERED, Outcome.EMPTY)
    tools = [answers[q.key].outcome for q in vendor.devices if q.key in answers]
    return not told and any(outcome is not Outcome.ABSENT for outcome in tools)


def candidates(device: str) -> tuple[str, ...]:
    return ACCELERATORS if device == "auto" else tuple(n for n in ACCELERATORS if n == device)


def list_die_questions(vendor: Vendor, seen: Mapping[str, Answer]) -> list[Question]:
    """The questions about dies, for each device node: /dev/davinci3 is the die with the physical id 3."""
    nodes = seen[vendor.presence[1].key].out.split()
    dies = [Device(phy_id=int(m[1])) for path in nodes if (m := re.search(r"(\d{1,6})$", path))]
    return [q for q, _, _ in _per_device(vendor, dies)]


def find_follow_ups(vendor: Vendor, answers: Mapping[str, Answer]) -> list[Question]:
    """The per-device questions, for the devices that the answers list, but for what the list has told already."""
    devices = _listing(vendor, answers)[2] if vendor.per_device else ()
    wanted = {kind: {d.npu for d in devices if needed(d)} for kind, needed in vendor.only_if.items()}
    return [q for q, number, kind in _per_device(vendor, devices) if number in wanted.get(kind, (number,))]


def _per_device(vendor: Vendor, devices: Iterable[Device]) -> tuple[tuple[Question, int, str], ...]:
    """(question, id, kind) of each follow-up, the kind as the record names it: board, usages, link ..."""
    some = list(devices)[:DEVICES_LIMIT]
    patterns = tuple(vendor.per_device.items())
    return _of_ids(patterns, _distinct(d.npu for d in some), _distinct(die_id(d) for d in some))


@lru_cache(maxsize=16)  # the hosts of a fleet have the same ids
def _of_ids(
    patterns: tuple[tuple[str, Question], ...], npus: tuple[int, ...], dies: tuple[int, ...]
) -> tuple[tuple[Question, int, str], ...]:
    ids = {PER_DEVICE: npus, PER_DIE: dies}
    asked = []
    for kind, pattern in patterns:
        hole = next(word for word in pattern.what if word in ids)
        for number in ids[hole]:
            what = tuple(str(number) if word == hole else word for word in pattern.what)
            asked.append((replace(pattern, what=what), number, kind))
    return tuple(asked)


def _distinct(numbers: Iterable[int | None]) -> tuple[int, ...]:
    return tuple(sorted({n for n in numbers if n is not None}))


def _listing(vendor: Vendor, answers: Mapping[str, Answer]) -> tuple[Answer | None, list[Document], tuple[Device, ...]]:
    """The answer that counts, the documents with that one first, and its devices."""
    given = [answers[q.key] for q in vendor.devices if q.key in answers]
    pairs = [(answer, reading.document(vendor, answer)) for answer in given]
    pairs.sort(key=lambda pair: (not pair[1].devices, pair[1].kind == "unknown"))  # stable: the steadiest first
    return (pairs[0][0], [d for _, d in pairs], pairs[0][1].devices) if pairs else (None, [], ())


def _vendor_facts(vendor: Vendor, answers: Mapping[str, Answer]) -> VendorFacts:
    tool, documents, devices = _listing(vendor, answers)
    lspci, nodes = (answers.get(question.key) for question in vendor.presence)
    details = {q.key: reading.document(vendor, answers[q.key]) for q in vendor.details if _readable(q, answers)}
    return VendorFacts(
        vendor=vendor,
        tool=tool,
        document=_merged(documents),
        devices=devices,
        processes=_processes(documents),
        topology=next((d.topology for d in details.values() if d.topology), None),
        pci=reading.bus_ids(vendor, lspci) if lspci and lspci.outcome in (Outcome.ANSWERED, Outcome.EMPTY) else None,
        nodes=tuple(nodes.out.split()) if nodes and nodes.outcome in (Outcome.ANSWERED, Outcome.EMPTY) else None,
        documents=details,
        per_device=_followed(vendor, devices, answers),
    )


def _processes(documents: list[Document]) -> tuple[Process, ...] | None:
    """None when no answer has a list of processes: a CSV of devices says nothing about them."""
    found = [d.processes for d in documents if d.kind in ("info", "table", "xml")]
    return next((listed for listed in found if listed), ()) if found else None


def _merged(documents: list[Document]) -> Document | None:
    """The first document, with the versions that only the others show."""
    if not documents:
        return None
    return replace(
        documents[0],
        tool_version=next((d.tool_version for d in documents if d.tool_version), None),
        driver_version=next((d.driver_version for d in documents if d.driver_version), None),
        cuda_version=next((d.cuda_version for d in documents if d.cuda_version), None),
    )


def _readable(question: Question, answers: Mapping[str, Answer]) -> bool:
    answer = answers.get(question.key)
    return question.verb != "list" and answer is not None and answer.outcome in READ


def _followed(
    vendor: Vendor, devices: tuple[Device, ...], answers: Mapping[str, Answer]
) -> dict[int, dict[str, Document]]:
    found: dict[int, dict[str, Document]] = {}
    for question, number, kind in _per_device(vendor, devices):
        answer = answers.get(question.key)
        if answer is not None and answer.outcome in READ and kind not in AS_TEXT:
            found.setdefault(number, {})[kind] = reading.follow_up(vendor, answer)
    return found


def _told(answers: Mapping[str, Answer], name: str) -> Mapping[str, Any] | None:
    """A collector's JSON object; None when it was not told or is no object."""
    answer = answers.get(f"ask {name}")
    if answer is None or not answer.ok:
        return None
    try:
        said = json.loads(answer.out)
    except (ValueError, RecursionError):
        return None
    return said if isinstance(said, dict) else None
