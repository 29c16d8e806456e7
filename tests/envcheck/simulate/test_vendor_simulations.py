"""A vendor with its own simulate.py is simulated; one without is refused with one message."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from envcheck.core.errors import UsageError
from envcheck.simulate import faults
from envcheck.simulate.build import write_simulation
from envcheck.simulate.machine_file import OWN, parse_machine
from envcheck.vendors import VENDORS

TEXT = (OWN / "h200x8.toml").read_text().replace('vendor = "nvidia"', 'vendor = "abacus"')
SIMULATE = """
from envcheck.core.simulate.fault import Fault, set_amiss
from envcheck.core.simulate.reply import SimulatedProgram, ProgramReply
from envcheck.core.simulate.vendor_simulation import VendorSimulation

SIMULATION = VendorSimulation(
    programs=lambda machine, now: (SimulatedProgram("abacus-smi", {"": ProgramReply("8 beads")}, ()),),
    faults={
        "bead-stuck": Fault("a bead does not move", set_amiss("bead-stuck"), after="hot"),
        "frame-bent": Fault("the frame is bent", set_amiss("frame-bent")),
    },
)
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of a made-up vendor `abacus`, without simulate.py."""
    folder = tmp_path / "abacus_vendor"
    folder.mkdir()
    (folder / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "abacus_vendor", raising=False)
    monkeypatch.delitem(sys.modules, "abacus_vendor.simulate", raising=False)
    monkeypatch.setitem(VENDORS, "abacus", replace(VENDORS["nvidia"], name="abacus", package="abacus_vendor"))
    return folder


def test_vendor_without_simulation_is_refused(package: Path) -> None:
    """Its machine file gives one message with the file, the vendor and what to add."""
    with pytest.raises(UsageError) as refused:
        parse_machine(TEXT, "mine", "mine.toml")

    assert refused.value.message == "mine.toml: envcheck has no simulated tools for vendor abacus"
    assert refused.value.next_step == "add simulate.py to abacus_vendor"


def test_vendor_brings_its_tools_and_faults(package: Path, tmp_path: Path) -> None:
    """Its program is written, its faults apply in their order, and every fault that applies can be built."""
    (package / "simulate.py").write_text(SIMULATE)
    machine = parse_machine(TEXT, "mine", "mine.toml")
    known = list(faults.load_faults())
    possible = faults.list_applicable_faults(machine)

    assert known[known.index("hot") + 1] == "bead-stuck"
    assert known[-1] == "frame-bent"
    assert {"bead-stuck", "frame-bent", "card-lost", "driver-old", "module-gone"} <= set(possible)
    assert not {"ecc", "fabric-down", "dcmi-8005"} & set(possible)
    assert faults.find_vendors("bead-stuck", faults.load_faults()["bead-stuck"]) == ("abacus",)
    for fault in possible:
        (tmp_path / fault).mkdir()
        write_simulation(faults.apply_faults(machine, [faults.parse_fault(fault)]), tmp_path / fault, 1e9)
    assert (tmp_path / "card-lost/bin/abacus-smi").exists()
    assert not (tmp_path / "tool-missing/bin/abacus-smi").exists()
