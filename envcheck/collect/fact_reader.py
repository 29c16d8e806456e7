"""Reads answers into Facts, and finds the follow-up questions. It evaluates nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from envcheck.collect import answer_parsers as reading
from envcheck.collect.questions import HOST_QUESTIONS
from envcheck.core.facts import Facts, MachineRequirements, VendorFacts
from envcheck.core.model import Answer, Device, Document, Outcome, Process, Question
from envcheck.core.vendor import PER_DEVICE, PER_DIE, Vendor, find_die_id
from envcheck.vendors import VENDORS
from probes.host import decode, docker_info

DEVICES_LIMIT = 256  # no host has more; limits the processes that a forged list can start
READ = (Outcome.ANSWERED, Outcome.FAILED, Outcome.UNSTARTED, Outcome.FLOODED)  # the text may have the reason
AS_TEXT = ("tls",)  # the check reads these answers itself: they are not key-value pairs
ACCELERATORS = tuple(name for name in VENDORS if VENDORS[name].devices)


def read_facts(answers: Mapping[str, Answer], device: str = "auto", wanted: MachineRequirements | None = None) -> Facts:
    """Return the facts from the answers; the same for a live host and for a recording."""
    found = [
        VENDORS[name]
        for name in candidate_vendors(device)
        if device != "auto" or is_vendor_present(VENDORS[name], answers)
    ]
    collected = {
        name: _read_collector(answers, name)
        for name in ("host", "disks", "limits", "environment", "network", "clock", "packages")
    }
    clock = collected["clock"]
    return Facts(
        device=device,
        vendors=tuple(_read_vendor_facts(vendor, answers) for vendor in found),
        host=decode.decode_host(collected["host"]),
        disks=decode.decode_disks(collected["disks"]),
        limits=decode.decode_limits(collected["limits"]),
        environment=decode.decode_texts(collected["environment"]),
        network=decode.decode_network(collected["network"]),
        clock_synchronised=decode.decode_bool(clock.get("synchronised")) if clock else None,
        packages=decode.decode_packages(collected["packages"]),
        environments=decode.decode_environments(collected["packages"]),
        proofs=decode.decode_proofs(collected["packages"]),
        engine=docker_info.parse_docker_info(docker) if (docker := answers.get(HOST_QUESTIONS[-1].key)) else None,
        answers=answers,
        wanted=wanted,
    )


def is_vendor_present(vendor: Vendor, answers: Mapping[str, Answer]) -> bool:
    """Return whether the host has such a device: lspci or /dev lists one, or the tool answers and lspci is not
    available."""
    pci, nodes = read_pci_addresses(vendor, answers), answers.get(vendor.node_question.key)
    if pci or (nodes and nodes.ok):
        return True
    is_known = pci is not None
    tools = [answers[q.key].outcome for q in vendor.devices if q.key in answers]
    return not is_known and any(outcome is not Outcome.ABSENT for outcome in tools)


def read_pci_addresses(vendor: Vendor, answers: Mapping[str, Answer]) -> tuple[str, ...] | None:
    """Return the bus ids of the vendor's cards as lspci prints them; None if lspci did not answer."""
    given = [answers.get(question.key) for question in vendor.pci_questions]
    listed = [a for a in given if a is not None and a.outcome in (Outcome.ANSWERED, Outcome.EMPTY)]
    if not given or len(listed) < len(given):
        return None
    return tuple(bus for answer in listed for bus in reading.parse_bus_ids(vendor, answer))


def candidate_vendors(device: str) -> tuple[str, ...]:
    """Return the accelerator vendors to look for; for `auto`, all of them."""
    return ACCELERATORS if device == "auto" else tuple(n for n in ACCELERATORS if n == device)


def list_die_questions(vendor: Vendor, seen: Mapping[str, Answer]) -> list[Question]:
    """Return the questions about dies for each device node: /dev/davinci3 is the die with physical id 3."""
    nodes = seen[vendor.node_question.key].out.split()
    dies = [Device(phy_id=int(m[1])) for path in nodes if (m := re.search(r"(\d{1,6})$", path))]
    return [q for q, _, _ in _list_device_questions(vendor, dies)]


def find_follow_ups(vendor: Vendor, answers: Mapping[str, Answer]) -> list[Question]:
    """Return the per-device questions for the listed devices, without those that the list already answers."""
    devices = _choose_device_list(vendor, answers)[2] if vendor.per_device else ()
    wanted = {kind: {d.npu for d in devices if needed(d)} for kind, needed in vendor.only_if.items()}
    return [q for q, number, kind in _list_device_questions(vendor, devices) if number in wanted.get(kind, (number,))]


def _list_device_questions(vendor: Vendor, devices: Iterable[Device]) -> tuple[tuple[Question, int, str], ...]:
    """Return (question, id, kind) of each follow-up; kinds as in the vendor record: board, usages, link ..."""
    some = list(devices)[:DEVICES_LIMIT]
    patterns = tuple(vendor.per_device.items())
    return _fill_in_ids(
        patterns, _distinct_numbers(d.npu for d in some), _distinct_numbers(find_die_id(d) for d in some)
    )


@lru_cache(maxsize=16)  # the hosts of a fleet have the same ids
def _fill_in_ids(
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


def _distinct_numbers(numbers: Iterable[int | None]) -> tuple[int, ...]:
    return tuple(sorted({n for n in numbers if n is not None}))


def _choose_device_list(
    vendor: Vendor, answers: Mapping[str, Answer]
) -> tuple[Answer | None, list[Document], tuple[Device, ...]]:
    """Return the best answer, the documents with that one first, and its devices."""
    given = [answers[q.key] for q in vendor.devices if q.key in answers]
    pairs = [(answer, reading.parse_answer(vendor, answer)) for answer in given]
    pairs.sort(
        key=lambda pair: (not pair[1].devices, pair[1].kind == "unknown")
    )  # stable sort: the vendor's order is kept
    return (pairs[0][0], [d for _, d in pairs], _list_whole_devices(pairs[0][1])) if pairs else (None, [], ())


def _list_whole_devices(document: Document) -> tuple[Device, ...]:
    """Return the devices without the one in which a truncated output ends: it cannot be judged, nor counted on."""
    devices = document.devices
    is_cut = document.truncated and bool(devices) and devices[-1].memory_total_mib is None
    return devices[:-1] if is_cut else devices


def _read_vendor_facts(vendor: Vendor, answers: Mapping[str, Answer]) -> VendorFacts:
    tool, documents, devices = _choose_device_list(vendor, answers)
    nodes = answers.get(vendor.node_question.key)
    details = {q.key: reading.parse_answer(vendor, answers[q.key]) for q in vendor.details if _is_readable(q, answers)}
    return VendorFacts(
        vendor=vendor,
        tool=tool,
        document=_merge_documents(documents),
        devices=devices,
        processes=_choose_processes(documents),
        topology=next((d.topology for d in details.values() if d.topology), None),
        pci=read_pci_addresses(vendor, answers),
        nodes=tuple(nodes.out.split()) if nodes and nodes.outcome in (Outcome.ANSWERED, Outcome.EMPTY) else None,
        documents=details,
        per_device=_read_follow_ups(vendor, devices, answers),
    )


def _choose_processes(documents: list[Document]) -> tuple[Process, ...] | None:
    """Return the listed processes; None if no answer has a process list, such as a CSV of devices."""
    found = [d.processes for d in documents if d.kind in ("info", "table", "xml")]
    return next((listed for listed in found if listed), ()) if found else None


def _merge_documents(documents: list[Document]) -> Document | None:
    """Return the first document, with versions that only the others show."""
    if not documents:
        return None
    return replace(
        documents[0],
        tool_version=next((d.tool_version for d in documents if d.tool_version), None),
        driver_version=next((d.driver_version for d in documents if d.driver_version), None),
        cuda_version=next((d.cuda_version for d in documents if d.cuda_version), None),
        runtime_version=next((d.runtime_version for d in documents if d.runtime_version), None),
    )


def _is_readable(question: Question, answers: Mapping[str, Answer]) -> bool:
    answer = answers.get(question.key)
    return question.verb != "list" and answer is not None and answer.outcome in READ


def _read_follow_ups(
    vendor: Vendor, devices: tuple[Device, ...], answers: Mapping[str, Answer]
) -> dict[int, dict[str, Document]]:
    found: dict[int, dict[str, Document]] = {}
    for question, number, kind in _list_device_questions(vendor, devices):
        answer = answers.get(question.key)
        if answer is not None and answer.outcome in READ and kind not in AS_TEXT:
            found.setdefault(number, {})[kind] = reading.parse_follow_up(vendor, answer)
    return found


def _read_collector(answers: Mapping[str, Answer], name: str) -> Mapping[str, Any] | None:
    """Return a collector's JSON object; None if it was not collected or is not an object."""
    answer = answers.get(f"ask {name}")
    if answer is None or not answer.ok:
        return None
    try:
        value = json.loads(answer.out)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
