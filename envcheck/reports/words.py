"""The words of the page, by language: a translation is one more table with the same keys.

Names of areas and the verdict's sentences are those of `judged`; what a check says is the check's own.
"""

from __future__ import annotations

from collections.abc import Mapping

from envcheck.reports.words_zh import ZH

EN = {
    "title": "envcheck doctor",
    "to_findings": "Skip to the findings",
    "examined": "examined",
    "no_cards": "no accelerator, examined as cpu",
    "theme": "Light or dark",
    "next": "Next step",
    "nothing_to_do": "Nothing is in the way. Start the training:",
    "nothing_judged": "Ask for a check that applies here:",
    "copy": "Copy",
    "copied": "Copied",
    "areas": "Areas",
    "machine": "The machine",
    "findings": "Findings",
    "open_all": "Open all folds",
    "close_all": "Close all folds",
    "evidence": "Evidence",
    "more_lines": "more lines: envcheck doctor --json",
    "source": "Source",
    "explains": "What follows from it",
    "waived": "waived",
    "well": "checks are well",
    "well_one": "check is well",
    "idle": "do not apply, or follow from another",
    "idle_one": "does not apply, or follows from another",
    "check": "Check",
    "seen": "What was seen",
    "device": "Device",
    "health": "Health",
    "not_said": "not said",
    "memory": "Memory",
    "of": "of",
    "temperature": "Temperature",
    "power": "Power",
    "busy": "Busy",
    "held_by": "Held by",
    "not_told": "could not be told",
    "on_bus": "On the bus, not listed by the tool",
    "no_devices": "The tool lists no device.",
    "more_devices": "more devices are not drawn",
    "host": "Host",
    "host_memory": "Memory in use",
    "place_home": "home folder",
    "place_here": "this folder",
    "topology": "Links between the devices",
    "matrix": "From the device of the row to that of the column",
    "graph": "Devices by NUMA node, with their fast links",
    "near": "near",
    "numa": "NUMA node",
    "group_untold": "NUMA node not told",
    "within": "Not drawn within a group:",
    "between": "Between the groups:",
    "slower": "fewer fast links than the others",
    "legend": "Kinds of link, fastest first",
    "state_ok": "ok",
    "state_skip": "does not apply",
    "state_unknown": "not told",
    "state_warn": "warning",
    "state_fail": "failure",
    "count_ok": "ok",
    "count_skip": "do not apply",
    "count_unknown": "not told",
    "count_warn": "warnings",
    "count_fail": "failures",
    "count_one_ok": "ok",
    "count_one_skip": "does not apply",
    "count_one_unknown": "not told",
    "count_one_warn": "warning",
    "count_one_fail": "failure",
    "link_package": "two dies of one package",
    "link_fabric": "the vendor's own link",
    "link_switch": "PCIe switches only",
    "link_bridge": "through the host's PCIe bridges",
    "link_sys": "between CPU sockets",
    "link_untold": "not told",
    "exit_code": "exit code",
    "made_by": "Made by envcheck",
    "private": "This page is whole in itself: it loads nothing and sends nothing.",
}
WORDS: Mapping[str, Mapping[str, str]] = {"en": EN, "zh": ZH}


def words(lang: str) -> Mapping[str, str]:
    """English where a language has no word, or is not there."""
    return {**EN, **WORDS.get(lang, {})}
