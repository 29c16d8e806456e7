"""`envcheck slurm prolog`: what it says of a node by itself, and as Prolog and HealthCheckProgram of a real Slurm."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.launch.backends.slurm.slurm_parts import Cluster, cluster

pytestmark = pytest.mark.real

ROOT = Path(__file__).parents[4]
SAYS = (sys.executable, "-m", "envcheck", "slurm", "prolog")


def prolog(machine: str, *words: str, faults: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    wishes = [word for fault in faults for word in ("--fault", fault)]
    argv = [sys.executable, "-m", "envcheck", "simulate", machine, *wishes, "--", *SAYS, *words]
    env = {**os.environ, "SLURMD_NODENAME": "node07"}
    return subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize("machine", ("atlas-200t-a2-box16", "bi-v150x8", "h200x8"))
def test_a_node_that_is_well(machine: str) -> None:
    """Nothing is said, and the answer is 0."""
    done = prolog(machine)

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("machine", "faults", "words", "expected"),
    [
        (
            "atlas-800t-a2",
            ("card-lost=3",),
            (),
            "envcheck: node07 is not fit: devices.count: lspci 8, /dev 8, npu-smi 7\n",
        ),
        ("bi-v150x8", ("tool-missing",), (), "envcheck: node07 is not fit: driver.tool"),
        ("h200x8", ("memory-held",), ("--alone",), "envcheck: node07 is not fit: devices."),
    ],
)
def test_a_node_that_is_not_fit(machine: str, faults: tuple[str, ...], words: tuple[str, ...], expected: str) -> None:
    """One line with the node, the check and what it saw, and 1, so that slurmd takes the node out of use."""
    done = prolog(machine, *words, faults=faults)

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(expected)
    assert done.stderr.count("\n") == 1


def test_a_card_that_another_job_uses() -> None:
    """Where jobs share nodes, a card in use is no fault of the node."""
    assert prolog("h200x8", faults=("memory-held",)).returncode == 0


@pytest.mark.parametrize(("words", "code"), (((), 0), (("--strict",), 1)))
def test_a_tool_that_hangs(words: tuple[str, ...], code: int) -> None:
    """The look ends at its limit, whatever hangs: that it could not be told fails no node, unless a site wants it."""
    done = prolog("atlas-800t-a2", "--limit", "1.5", *words, faults=("tool-hang=60",))

    assert done.returncode == code
    assert done.stderr == "envcheck: node07: could not tell: it could not be told in 1.5 s\n"


def test_a_file_for_the_configuration(tmp_path: Path) -> None:
    """What --as-script prints is a program without options, which Prolog= can name, and it runs without any PATH."""
    text = subprocess.run(
        [*SAYS, "--device", "cpu", "--limit", "20", "--as-script"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    (tmp_path / "prolog").write_text(text)
    (tmp_path / "prolog").chmod(0o755)
    done = subprocess.run([tmp_path / "prolog"], env={"SLURMD_NODENAME": "n"}, capture_output=True, text=True)

    assert "slurm prolog --device cpu --limit 20\n" in text
    assert (done.returncode, done.stderr) == (0, "")


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("prolog"), {"npu": (2, "npu:8")}) as made:
        for name in made.names:
            made.simulate(name, "atlas-800t-a2")
        yield made


def asks(slurm: Cluster, *words: str) -> str:
    """What a site's own file has: the node's machine is a simulated one, else nothing is ours."""
    return f'export ENVCHECK_SYSROOT="{slurm.machine}"\nexec {" ".join(SAYS)} {" ".join(words)}'


def test_as_prolog(slurm: Cluster) -> None:
    """A job whose first node is not fit starts on the other one, and the bad node is out of use."""
    slurm.simulate("node01", "atlas-800t-a2", "card-lost=3")
    slurm.program("prolog", asks(slurm))
    place = slurm.folder / "ran.txt"
    sent = slurm.call("sbatch", "--parsable", "--requeue", "--output=/dev/null", f"--wrap=hostname > {place}")
    assert sent.returncode == 0, sent.stderr
    slurm.wait(lambda: place.exists() and bool(place.read_text()))

    assert place.read_text() == "node02\n"
    assert slurm.states()["node01"].startswith("drain")
    slurm.clean()


def test_as_health_check(slurm: Cluster) -> None:
    """A node that loses a card while nobody trains is out of use at the next look, and `sinfo -R` says why."""
    slurm.simulate("node01", "atlas-800t-a2")
    slurm.simulate("node02", "atlas-800t-a2", "card-lost=3")
    slurm.program("health", f"export SLURM_CONF={slurm.folder}/slurm.conf\n{asks(slurm, '--drain')}")
    slurm.wait(lambda: slurm.states()["node02"].startswith("drain"))

    reason = slurm.call("sinfo", "-R", "-h", "-o", "%E|%N").stdout
    assert reason == "envcheck: devices.count: lspci 8, /dev 8, npu-smi 7|node02\n"
    assert slurm.states()["node01"].rstrip("*") == "idle"  # *: on a busy machine it is late to say so
