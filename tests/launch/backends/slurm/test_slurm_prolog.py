"""`envcheck slurm prolog`: called directly, and as Prolog and HealthCheckProgram of a real Slurm."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from launch.backends.slurm import prolog
from tests.launch.backends.slurm.slurm_parts import SlurmCluster, start_slurm

pytestmark = pytest.mark.real

ROOT = Path(__file__).parents[4]
SAYS = (sys.executable, "-m", "envcheck", "slurm", "prolog")


def run_prolog(machine: str, *words: str, faults: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    wishes = [word for fault in faults for word in ("--fault", fault)]
    argv = [sys.executable, "-m", "envcheck", "simulate", machine, *wishes, "--", *SAYS, *words]
    env = {**os.environ, "SLURMD_NODENAME": "node07"}
    return subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize("machine", ("atlas-200t-a2-box16", "bi-v150x8", "h200x8"))
def test_a_healthy_node(machine: str) -> None:
    """No output, exit code 0."""
    done = run_prolog(machine)

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("machine", "faults", "words", "expected"),
    [
        (
            "atlas-800t-a2",
            ("card-lost=3",),
            (),
            "envcheck: node node07 is not healthy: devices.count: NPU 3 (0000:82:00.0) is on the PCI bus but missing "
            "from npu-smi (lspci 8, /dev 8, npu-smi 7)\n",
        ),
        ("bi-v150x8", ("tool-missing",), (), "envcheck: node node07 is not healthy: driver.tool"),
        ("h200x8", ("memory-held",), ("--alone",), "envcheck: node node07 is not healthy: devices."),
    ],
)
def test_an_unhealthy_node(machine: str, faults: tuple[str, ...], words: tuple[str, ...], expected: str) -> None:
    """One line with the node, the check and its finding, and exit code 1, so that Slurm drains the node."""
    done = run_prolog(machine, *words, faults=faults)

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(expected)
    assert done.stderr.count("\n") == 1


def test_a_card_that_another_job_uses() -> None:
    """If jobs share nodes, a device in use is not a fault of the node."""
    assert run_prolog("h200x8", faults=("memory-held",)).returncode == 0


@pytest.mark.parametrize(("words", "code"), (((), 0), (("--fail-on-unknown",), 1)))
def test_a_tool_that_hangs(words: tuple[str, ...], code: int) -> None:
    """The checks end at their time limit; an unknown result fails the node only with --fail-on-unknown."""
    done = run_prolog("atlas-800t-a2", "--timeout", "1.5", *words, faults=("tool-hang=60",))

    assert done.returncode == code
    assert done.stderr == "envcheck: cannot determine whether node node07 is healthy: no result within 1.5 s\n"


def test_a_file_for_the_configuration(tmp_path: Path) -> None:
    """--as-script prints a program without options for Prolog=, which runs without PATH."""
    text = subprocess.run(
        [*SAYS, "--device", "cpu", "--timeout", "20", "--as-script"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    (tmp_path / "prolog").write_text(text)
    (tmp_path / "prolog").chmod(0o755)
    done = subprocess.run([tmp_path / "prolog"], env={"SLURMD_NODENAME": "n"}, capture_output=True, text=True)

    assert "slurm prolog --device cpu --timeout 20\n" in text
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("words", (("--skip", "devices.nonsense"), ("--config", "absent.toml"), ("--bogus",)))
def test_a_mistake_of_the_user_drains_no_node(words: tuple[str, ...]) -> None:
    """--as-script refuses wrong options; a script with such options, or without envcheck, does not fail the node."""
    shown = subprocess.run([*SAYS, *words, "--as-script"], cwd=ROOT, capture_output=True, text=True, check=False)
    text = prolog.render_prolog_script(str(Path(sys.executable).with_name("envcheck")), [*words, "--drain"])
    for script in (text, prolog.render_prolog_script("/nonexistent/envcheck", [])):
        done = subprocess.run(["sh", "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
        assert (done.returncode, bool(done.stderr), "drain" in done.stderr) == (0, True, False), done

    assert (shown.returncode, shown.stdout) == (2, ""), shown


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    with start_slurm(tmp_path_factory.mktemp("prolog"), {"npu": (2, "npu:8")}) as made:
        for name in made.names:
            made.simulate_node(name, "atlas-800t-a2")
        yield made


def write_prolog(slurm: SlurmCluster, *words: str) -> str:
    """Return a Prolog script of a site, on a node with a simulated machine."""
    return f'export ENVCHECK_SYSROOT="{slurm.machine_path}"\nexec {" ".join(SAYS)} {" ".join(words)}'


def test_as_prolog(slurm: SlurmCluster) -> None:
    """A job whose first node is unhealthy starts on the other one, and the bad node is drained."""
    slurm.simulate_node("node01", "atlas-800t-a2", "card-lost=3")
    slurm.write_program("prolog", write_prolog(slurm))
    place = slurm.folder / "ran.txt"
    sent = slurm.run_command("sbatch", "--parsable", "--requeue", "--output=/dev/null", f"--wrap=hostname > {place}")
    assert sent.returncode == 0, sent.stderr
    slurm.wait_until(lambda: place.exists() and bool(place.read_text()))

    assert place.read_text() == "node02\n"
    assert slurm.read_states()["node01"].startswith("drain")
    slurm.reset_cluster()


def test_as_health_check(slurm: SlurmCluster) -> None:
    """An idle node that loses a device is drained at the next health check; `sinfo -R` shows the reason."""
    slurm.simulate_node("node01", "atlas-800t-a2")
    slurm.simulate_node("node02", "atlas-800t-a2", "card-lost=3")
    slurm.write_program("health", f"export SLURM_CONF={slurm.folder}/slurm.conf\n{write_prolog(slurm, '--drain')}")
    slurm.wait_until(lambda: slurm.read_states()["node02"].startswith("drain"))

    reason = slurm.run_command("sinfo", "-R", "-h", "-o", "%E|%N").stdout
    assert reason.startswith("envcheck: devices.count: NPU 3 (0000:82:00.0) is on the PCI bus but missing from npu-smi")
    assert reason.endswith(" (lspci 8, /dev 8, npu-smi 7)|node02\n")
    assert slurm.read_states()["node01"].rstrip("*") == "idle"  # *: slurmd responds late on a busy machine
