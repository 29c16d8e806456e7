"""A simulated machine with faults in a test folder, and what envcheck's parsers read from its tools."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from envcheck.collect.answer_sources import AnswerSource as Door
from envcheck.collect.answer_sources import simulated_machine
from envcheck.core.model import Document, Question
from envcheck.core.simulate.machine import SimulatedSystem
from envcheck.simulate import faults
from envcheck.simulate.build import write_simulation
from envcheck.simulate.machine_file import load_machine
from envcheck.vendors import VENDORS
from probes.ascend import npu_smi
from probes.kunlunxin import xpu_smi
from probes.smi import ixsmi, nvidia_smi

PARSERS: dict[str, Callable[[str], Document]] = {
    "npu-smi": npu_smi.parse,
    "ixsmi": ixsmi.parse,
    "nvidia-smi": nvidia_smi.parse,
    "xpu-smi": xpu_smi.parse,
    "xpu_smi": xpu_smi.parse,
    "hccn_tool": npu_smi.parse,
}


def make_machine_opener(tmp_path: Path) -> Callable[..., tuple[SimulatedSystem, Door]]:
    """Return a function that builds the machine with these faults and asks it questions."""

    def made(name: str, *wishes: str) -> tuple[SimulatedSystem, Door]:
        machine = faults.apply_faults(load_machine(name), [faults.parse_fault(wish) for wish in wishes])
        folder = Path(tempfile.mkdtemp(dir=tmp_path))
        write_simulation(machine, folder, 1e9)
        return machine, simulated_machine(folder)

    return made


def run_tool(at: Door, *argv: str) -> str:
    return at(Question("run", argv)).text


def parse_tool(at: Door, *argv: str) -> Document:
    return PARSERS[argv[0]](run_tool(at, *argv))


def parse_listing(machine: SimulatedSystem, at: Door) -> Document:
    """Parse the answer to the vendor's most reliable question that succeeds, else the last one's error."""
    questions = VENDORS[machine.vendor].devices
    return parse_tool(at, *next((q for q in questions if at(q).ok), questions[-1]).what)


def read_collector(m: SimulatedSystem, at: Door, name: str) -> str:
    return at(Question("ask", (name,))).out
