"""Helpers for doctor --deep tests: a plugin with faulty devices, a Python with real paddle or torch, small sizes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import psutil

from envcheck.cli import find_python
from envcheck.deep.card_selection import CandidateCard, CardSelection, select_pairs
from envcheck.deep.interpreter import HostTarget, PythonInterpreter, Sizes
from installers.targets.target import VenvTarget
from installers.verify.frameworks import KITS, build_interpreter
from tests.launch.fake_cards import compile_plugin

SOURCE = Path(__file__).with_name("faulty_device.cc")
SMALL = Sizes(budget_s=0.05, patience_s=60.0, rows=(64, 128), mib=(1, 2))
HASTY = replace(SMALL, patience_s=12.0, grace_s=2.0)  # for who hangs


def make_faulty_plugin(environment: Path, device_type: str, folder: Path) -> Path:
    """A CUSTOM_DEVICE_ROOT folder with the plugin whose devices fail on request."""
    return compile_plugin(environment, device_type, folder, SOURCE)


def make_interpreter(
    environment: Path, kit: str, vendor: str, own: Path, more: Mapping[str, str] | None = None
) -> PythonInterpreter:
    """As doctor makes one for a virtual environment without a recipe."""
    found = next(each for each in KITS if each.name == kit)
    env = find_python.build_environment(VenvTarget(environment), found, vendor) | dict(more or {})
    own.mkdir(parents=True, exist_ok=True)
    return build_interpreter(vendor, found, None, HostTarget(str(environment / "bin" / "python"), own), env)


def make_cards(vendor: str, count: int, memory_mib: int = 3) -> CardSelection:
    """So many idle cards of no known kind."""
    some = tuple(CandidateCard(n, str(n), "a card", memory_mib=memory_mib) for n in range(count))
    return CardSelection(vendor, some, select_pairs(None, range(count), range(count)))


def list_remaining_processes(mark: str | os.PathLike[str]) -> list[str]:
    """Processes whose command line names the folder."""
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        line = " ".join(process.info["cmdline"] or ())
        if str(mark) in line and process.info["status"] != psutil.STATUS_ZOMBIE:
            found.append(line)
    return found
