"""Asking a machine and reading its answers into Facts; judges nothing.

All questions go out at once.  Only the per-device follow-ups wait, and for nothing but the list of devices: a tool that
hangs costs its own deadline once, since without devices there is nothing to follow up.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

from envcheck.collect import documents as reading
from envcheck.collect.machine import Machine, ask_all, side_by_side
from envcheck.collect.questions import HOST_QUESTIONS
from envcheck.core import process
from envcheck.core.facts import Facts, VendorFacts, Wanted
from envcheck.core.model import Answer, Device, Document, Outcome, Process, Question
from envcheck.core.secrets import redact
from envcheck.core.vendor import PER_DEVICE, PER_DIE, Vendor, die_id
from envcheck.vendors import VENDORS
from probes.host import container, decode

DEVICES_LIMIT = 256  # no host has more; a forged list must not start a million processes
READ = (Outcome.ANSWERED, Outcome.FAILED)  # what failed may have said why
AS_TEXT = ("tls",)  # its check reads the answers themselves, which hold no plain pairs
ACCELERATORS = tuple(name for name in VENDORS if VENDORS[name].devices)


def gather(
    machine: Machine, device: str = "auto", wanted: Wanted | None = None, more: Iterable[Question] = ()
) -> Facts:
    """Ask, and read.  `device` is a vendor's name, or auto: whichever cards are in the machine."""
    return read(ask(machine, device, more), device, wanted)


def ask(machine: Machine, device: str = "auto", more: Iterable[Question] = ()) -> dict[str, Answer]:
    """All answers by question key, secrets removed; `more` are questions that a site adds."""
    asked = [VENDORS[name] for name in _candidates(device)]
    with process.no_child_left():
        rounds = side_by_side(
            [
                *(partial(_ask_vendor, machine, vendor, device != "auto") for vendor in asked),
                partial(ask_all, machine, (*HOST_QUESTIONS, *more)),
            ]
        )
    answers = {key: answer for answered in rounds for key, answer in answered.items()}
    return {key: replace(a, out=redact(a.out), err=redact(a.err)) for key, a in answers.items()}


def read(answers: Mapping[str, Answer], device: str = "auto", wanted: Wanted | None = None) -> Facts:
    """The facts that the answers hold; the same for a machine and for a recording of it."""
    found = [VENDORS[name] for name in _candidates(device) if device != "auto" or present(VENDORS[name], answers)]
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


def present(vendor: Vendor, answers: Mapping[str, Answer]) -> bool:
    """Whether such a card is in the machine: lspci or /dev lists one, or the tool answers where lspci cannot tell."""
    lspci, nodes = (answers.get(question.key) for question in vendor.presence)
    if (lspci and lspci.ok and reading.bus_ids(vendor, lspci)) or (nodes and nodes.ok):
        return True
    told = lspci is not None and lspci.outcome in (Outcome.ANSWERED, Outcome.EMPTY)
    tools = [answers[q.key].outcome for q in vendor.devices if q.key in answers]
    return not told and any(outcome is not Outcome.ABSENT for outcome in tools)


def _candidates(device: str) -> tuple[str, ...]:
    return ACCELERATORS if device == "auto" else tuple(n for n in ACCELERATORS if n == device)


def _ask_vendor(machine: Machine, vendor: Vendor, certain: bool) -> dict[str, Answer]:
    """Presence first when nobody said that the card is there: a driver's leftovers must not cost a deadline.

    What is asked of each die follows the device nodes, beside the vendor's tool; what is asked of each NPU, its list.
    """
    seen = ask_all(machine, vendor.presence[1:] if certain else vendor.presence)
    if not certain and not _worth_asking(vendor, seen):
        return seen
    beside = (*vendor.beside, *vendor.presence, *_of_nodes(vendor, seen))
    questions = [q for q in beside if q.key not in seen]

    def listed() -> dict[str, Answer]:
        devices = ask_all(machine, vendor.devices)
        told = {q.key for q in questions}
        return devices | ask_all(machine, [q for q in follow_ups(vendor, devices) if q.key not in told])

    def loaded() -> dict[str, Answer]:
        reading.load(vendor)
        return {}

    jobs: tuple[Callable[[], dict[str, Answer]], ...] = (listed, partial(ask_all, machine, questions), loaded)
    found = side_by_side(jobs)
    return {key: answer for answered in (seen, *found) for key, answer in answered.items()}


def _of_nodes(vendor: Vendor, seen: Mapping[str, Answer]) -> list[Question]:
    """The questions about dies, for each device node: /dev/davinci3 is the die with the physical id 3."""
    nodes = seen[vendor.presence[1].key].out.split()
    dies = [Device(phy_id=int(m[1])) for path in nodes if (m := re.search(r"(\d{1,6})$", path))]
    return [q for q, _, _ in _per_device(vendor, dies)]


def _worth_asking(vendor: Vendor, seen: Mapping[str, Answer]) -> bool:
    lspci = seen[vendor.presence[0].key]
    return present(vendor, seen) or lspci.outcome not in (Outcome.ANSWERED, Outcome.EMPTY)


def follow_ups(vendor: Vendor, answers: Mapping[str, Answer]) -> list[Question]:
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
