"""`envcheck train --gates` on simulated machines: the five published systems as they should be, and with their faults.

tests/launch/gates/test_gates_machines.py has each fault on each system, in one process; here are pairs of them,
by the command.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from packaging.utils import canonicalize_name

from installers.recipes import catalogue, fingerprint
from installers.recipes.recipe import Recipe, RecipeJob
from installers.state import environment, state_file
from tests.launch.gates.test_gates_machines import BOX16, CLOSES, NEWER, NOTED
from tests.tiers import thin_out

pytestmark = pytest.mark.slow

ENVCHECK = (sys.executable, "-m", "envcheck")
ROOT = Path(__file__).parents[3]
RECIPES = {recipe.name: recipe for recipe in catalogue.load_all(None)}
MACHINES = {
    "ernie-300b-npu": BOX16,
    "ernie-21b-iluvatar": "bi-v150x8",
    "ernie-21b-hetero": "h200x8",
    "qwen-7b-npu-llamafactory": "atlas-800t-a2",
    "qwen-7b-npu-swift": "atlas-800t-a2",
}
JOBS = [
    (name, job.method, job.variant, job.role)
    for name in MACHINES
    for job in RECIPES[name].jobs
    if job.method not in catalogue.TALKS
]
# What no simulation holds: weights, data and the upstream's files, a disk of that size, node 0's own address, ports.
LACKING = ("data", "model", "disk", "master", "port", "ports")
QWEN = ("qwen-7b-npu-swift", "lora", "zero2")
LLAMA = ("qwen-7b-npu-llamafactory", "lora", "")
BIG = ("ernie-300b-npu", "lora", "")
CHIPS = ("ernie-21b-iluvatar", "lora", "")
MIXED = ("ernie-21b-hetero", "lora", "nvidia")
# What a card, a driver and a host can have, each system with some; not tool-hang, which costs the tool's whole 20 s.
PAIRS = [
    ("card-lost", BIG),
    ("card-lost", CHIPS),
    ("card-lost", MIXED),
    ("health-alarm=0", QWEN),
    ("memory-held=62000", LLAMA),
    ("memory-held=30000", CHIPS),
    ("memory-held=141000", MIXED),
    ("hot", QWEN),
    ("hot", CHIPS),
    ("ecc", MIXED),
    ("ecc", LLAMA),
    ("link-down", BIG),
    ("driver-old", QWEN),
    ("driver-old", LLAMA),
    ("driver-old", CHIPS),
    ("driver-old", MIXED),
    ("library-mismatch", MIXED),
    ("dcmi-8005", QWEN),
    ("dcmi-8020", BIG),
    ("tool-missing", CHIPS),
    ("docker-absent", QWEN),
    ("shm-small", BIG),
    ("shm-small", MIXED),
    ("health-warning", LLAMA),
    ("topology-degraded", CHIPS),
    ("library-mismatch", BIG),
    ("truncated", QWEN),
]


# Another card is used where the job leaves some.
OF_ONE_CARD = ("health-alarm", "memory-held", "hot", "ecc")
WITH_SPARE_CARDS = ("qwen-7b-npu-llamafactory", "qwen-7b-npu-swift")


@dataclass(frozen=True)
class ProvisionedHome:
    """A home in which envcheck's state files say that all five systems are provisioned."""

    home: Path

    def run_gates(
        self, name: str, job: RecipeJob, *wishes: str, boxed: bool = False
    ) -> tuple[int, dict[str, Any], str]:
        """Return (exit code, gates by name, text output); `boxed`: in the recipe's container."""
        device = job.device or RECIPES[name].device
        machine = "bi-v150x8" if device == "iluvatar" else MACHINES[name]
        around = [word for wish in wishes for word in ("--fault", wish)]
        words = [
            *ENVCHECK,
            "simulate",
            machine,
            *around,
            "--",
            *ENVCHECK,
            "train",
            "--recipe",
            name,
            *make_options(job),
        ]
        words += [] if boxed else ["--into", str(self.home / name)]
        words += [word for gate in LACKING for word in ("--waive", gate, "--because", "no machine holds them")]
        env = {**os.environ, "ENVCHECK_HOME": str(self.home / "own"), "NO_COLOR": "1", "PYTHONPATH": str(ROOT)}
        made = [*words, "--gates", "--json"]
        done = subprocess.run(made, cwd=self.home, env=env, capture_output=True, text=True, timeout=120)
        found = json.loads(done.stdout)["gates"] if done.stdout else []
        return done.returncode, {gate["name"].removeprefix("gate."): gate for gate in found}, done.stderr


def make_options(job: RecipeJob) -> Iterator[str]:
    """Return the options that select this job, and on several nodes this node."""
    yield from ("--method", job.method)
    yield from ("--variant", job.variant) if job.variant else ()
    yield from ("--node-role", job.role) if job.role else ()
    if job.nodes > 1:
        rank = str(1 if job.rank is None else job.rank)
        yield from ("--rank", rank, "--master", "192.0.2.1")


@pytest.fixture(scope="module")
def seats(tmp_path_factory: pytest.TempPathFactory) -> ProvisionedHome:
    home = tmp_path_factory.mktemp("five")
    for name in MACHINES:
        make_environment(RECIPES[name], home / name)
    return ProvisionedHome(home)


def make_environment(recipe: Recipe, folder: Path) -> None:
    """Create the files of an environment in which the recipe is installed and verified."""
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python").symlink_to(sys.executable)
    (folder / "pyvenv.cfg").write_text("version = 3.10.12\n")
    proven = {}
    for package in recipe.packages:
        name, versions = package.name.partition("[")[0], re.findall(r"\d[\w.]*", package.specifier)
        version = next(v for v in (*versions, "0.1", "1") if environment.is_allowed_version(v, package.specifier))
        place = folder / "lib/python3.10/site-packages" / f"{name}-{version}.dist-info"
        place.mkdir(parents=True)
        for file in ("RECORD", "METADATA"):
            (place / file).touch()
        proven[str(canonicalize_name(name))] = version
    proof = state_file.RecipeProof(fingerprint.compute_fingerprint(recipe), packages=proven)
    state_file.save_state(folder, state_file.EnvironmentState(False, {recipe.name: proof}))


def find_job(name: str, method: str, which: str) -> RecipeJob:
    return next(j for j in RECIPES[name].jobs if j.method == method and which in (j.variant, j.role))


def list_allowed_failures(name: str) -> tuple[str, ...]:
    return (NEWER,) if MACHINES[name] == "atlas-800t-a2" else ()


def list_closed_gates(found: dict[str, Any]) -> set[str]:
    return {name for name, gate in found.items() if gate["status"] == "FAIL"}


@pytest.mark.parametrize(("name", "method", "variant", "role"), thin_out(5, JOBS))
def test_all_gates_are_open(seats: ProvisionedHome, name: str, method: str, variant: str, role: str) -> None:
    """Every method of every published system passes on its machine: exit code 0, no gate failed or unknown.

    Waivers are needed only for facts that a simulation lacks.
    """
    code, found, err = seats.run_gates(name, find_job(name, method, variant or role), *list_allowed_failures(name))
    waived = {gate for gate, finding in found.items() if finding["seen"].startswith("waived")}

    assert (code, list_closed_gates(found)) == (0, set()), (err, found)
    assert not [gate for gate, finding in found.items() if finding["status"] == "UNKNOWN"]
    assert waived <= set(LACKING)


def find_gate(fault: str, name: str) -> tuple[str, str]:
    """Return the gate that the fault fails, and for gate.doctor the beginning of its evidence."""
    wanted = "driver.tool" if (fault, name) == ("library-mismatch", "ernie-21b-hetero") else CLOSES.get(fault, "")
    return ("doctor", wanted) if "." in wanted else (wanted, "")


@pytest.mark.parametrize(
    ("wish", "system"), thin_out(7, PAIRS), ids=[f"{fault}-{system[0]}" for fault, system in PAIRS]
)
def test_a_fault_closes_its_gate(seats: ProvisionedHome, wish: str, system: tuple[str, str, str]) -> None:
    """A fault fails its gate, with exit code 1, evidence and remedy; a harmless fault is only reported."""
    name, method, which = system
    fault = wish.partition("=")[0]
    usual = () if fault == "driver-old" else list_allowed_failures(name)
    code, found, _ = seats.run_gates(name, find_job(name, method, which), *usual, wish, boxed=fault == "docker-absent")
    gate, check = find_gate(fault, name)

    if fault in OF_ONE_CARD and name in WITH_SPARE_CARDS:
        assert (code, list_closed_gates(found)) == (0, set()), found
        assert "avoids 1 device: device 0" in found["devices"]["seen"]
        return
    if not gate:
        assert fault in NOTED
        assert (code, list_closed_gates(found)) == (NOTED[fault][1], set()), found
        assert any(NOTED[fault][0] in line for line in found["doctor"]["evidence"]), found["doctor"]
        return
    closed = found[gate]
    assert code == 1
    assert closed["status"] == "FAIL", found
    assert not check or any(line.startswith(f"{check}: ") for line in closed["evidence"]), closed
    assert closed["seen"]
    assert closed["remedy"]["words"]
    assert list_closed_gates(found) - {gate} <= {
        "devices",
        "container",
    }  # the cards that are lost; a box without an engine


def test_each_system_has_faults() -> None:
    """Each system has faults here, and each fault is in the tables of test_gates_machines.py."""
    assert {wish.partition("=")[0] for wish, _ in PAIRS} <= {*CLOSES, *NOTED}
    assert {system[0] for _, system in PAIRS} == set(MACHINES)


def test_for_a_person(seats: ProvisionedHome) -> None:
    """The output has a line per gate, remedies of failed ones, and the verdict; nothing is started."""
    argv = [*ENVCHECK, "simulate", "bi-v150x8", "--fault", "shm-small", "--", *ENVCHECK, "train", "--gates"]
    argv += ["--recipe", "ernie-21b-iluvatar", "--method", "lora", "--into", str(seats.home / "ernie-21b-iluvatar")]
    env = {**os.environ, "ENVCHECK_HOME": str(seats.home / "own"), "NO_COLOR": "1", "PYTHONPATH": str(ROOT)}
    env |= {"COLUMNS": "60", "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run(argv, cwd=seats.home, env=env, capture_output=True, text=True, timeout=120)
    lines = done.stdout.splitlines()

    assert done.returncode == 1, done.stderr
    assert "[✓] gate.devices: this job needs 16 devices; 16 found (2" in lines
    assert any(line.startswith("[✗] gate.shm: this job needs 64.0 GiB of /dev/shm;") for line in lines)
    assert next(line for line in lines if "$ sudo mount" in line).startswith("        $ ")
    assert " ".join(lines[-2:]).startswith("4 preflight checks failed;")
    assert all(len(line) < 60 for line in lines if "$ " not in line and "/" not in line)
    assert not list(seats.home.glob("runs/*/run.json"))


def test_looking_starts_nothing(seats: ProvisionedHome) -> None:
    """--gates with an option that starts or installs something, or shows the command, is exit code 2."""
    for more in ("--provision", "--detach", "--dry-run", "--as-script"):
        argv = [*ENVCHECK, "train", "--model", "tiny", "--method", "lora", "--device", "cpu", "--gates", more]
        done = subprocess.run(argv, cwd=seats.home, capture_output=True, text=True, timeout=60)

        assert done.returncode == 2
        assert f"--gates cannot be combined with {more}" in done.stderr
