"""A simulated machine with faults, built in a test's folder, and what its tools say to our parsers."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from envcheck.collect.machine import Machine as Door
from envcheck.collect.machine import simulated
from envcheck.core.model import Document, Question
from envcheck.core.simulate.machine import Machine
from envcheck.simulate import faults
from envcheck.simulate.build import build
from envcheck.simulate.machine_file import load
from envcheck.vendors import VENDORS
from probes.ascend import npu_smi
from probes.smi import ixsmi, nvidia_smi

PARSERS: dict[str, Callable[[str], Document]] = {
    "npu-smi": npu_smi.parse,
    "ixsmi": ixsmi.parse,
    "nvidia-smi": nvidia_smi.parse,
    "hccn_tool": npu_smi.parse,
}


def opened(tmp_path: Path) -> Callable[..., tuple[Machine, Door]]:
    """Makes the machine of that name with these faults, built, and the door to it."""

    def made(name: str, *wishes: str) -> tuple[Machine, Door]:
        machine = faults.apply(load(name), [faults.asked(wish) for wish in wishes])
        folder = Path(tempfile.mkdtemp(dir=tmp_path))
        build(machine, folder, 1e9)
        return machine, simulated(folder)

    return made


def say(at: Door, *argv: str) -> str:
    return at(Question("run", argv)).text


def document(at: Door, *argv: str) -> Document:
    return PARSERS[argv[0]](say(at, *argv))


def listing(machine: Machine, at: Door) -> Document:
    """What the vendor's steadiest question that is answered tells, or its last one's complaint."""
    questions = VENDORS[machine.vendor].devices
    return document(at, *next((q for q in questions if at(q).ok), questions[-1]).what)


def told_by(m: Machine, at: Door, name: str) -> str:
    return at(Question("ask", (name,))).out
