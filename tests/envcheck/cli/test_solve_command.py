"""`envcheck solve` by the command: on machines, in Chinese, refused, and from a snapshot."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from envcheck.collect import facts
from envcheck.compat import detect, pair_verdicts, solver, table_loader
from envcheck.compat.components import load_components
from envcheck.compat.version_records import PairStatus
from envcheck.report import version_sets
from tests.envcheck.checks.doctor_helpers import MACHINES, simulate_machine

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
TABLE = table_loader.own_version_table()

REFUSALS = [
    (("--device", "gpu"), 2, "--device gpu is ambiguous"),
    (("--device", "cpu"), 2, "--device cpu has no driver"),
    (("--driver", "4.3.0"), 2, "--driver requires a vendor"),
    (("--device", "npu", "--driver", "x.x.x"), 2, "--driver 'x.x.x' is not a version"),
    (("--device", "npu", "--driver", ""), 2, "--driver: the value is empty"),
    (("--device", "npu", "--library", "jax"), 2, "'jax' is not one of"),
    (("--device", "npu", "--arch", "mips"), 2, "'mips' is not one of"),
    (("--replay", "there-is-none.json"), 2, "there-is-none.json"),
    (("--device", "npu"), 3, "cannot determine the driver version"),
]


def run_solve(*argv: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "envcheck", "solve", *argv]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)


def test_blanks_around_a_driver_do_not_matter() -> None:
    """A version that was copied with its blanks is read, and printed without them."""
    done = run_solve("--device", "npu", "--driver", " 24.1.rc1  ", "--arch", "x86_64")

    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "npu, paddle: driver 24.1.rc1, x86_64")


@pytest.mark.parametrize("name", [name for name in MACHINES if name != "cpu"])
def test_machine_tells_its_versions(name: str) -> None:
    """From tools, files and metadata: driver, processor, Python and packages; nothing known bad is on our machines."""
    with simulate_machine(name) as machine:
        found = facts.gather_facts(machine)
    versions_here = detect.detect_versions(found)

    assert set(versions_here) <= set(load_components())
    assert {"architecture", "python", "numpy"} <= set(versions_here)
    assert any(goal.driver in versions_here for goal in TABLE.goals.values())
    assert [
        v
        for v in pair_verdicts.evaluate_pairs(versions_here, detect.list_machine_rows(found))
        if v.standing is PairStatus.BAD
    ] == []


def test_firmware_is_judged_by_the_drivers_own_file() -> None:
    """The range in version.info makes a row: outside it the firmware is known bad, inside it is fine."""
    with simulate_machine("atlas-800t-a2") as machine:
        found = facts.gather_facts(machine)
    told = list(detect.list_machine_rows(found))
    for firmware, standing in (("7.1.0.6.220", PairStatus.TESTED), ("7.3.0", PairStatus.BAD), ("6.9", PairStatus.BAD)):
        verdict = pair_verdicts.evaluate_pair(
            "npu-driver", "npu-firmware", {"npu-driver": "24.1.rc1.b030", "npu-firmware": firmware}, told
        )
        assert verdict is not None and verdict.standing is standing


def test_screen_on_a_machine() -> None:
    """The screen shows which versions match, their sources, and what to install; 60 columns."""
    done = _solve_on("atlas-200t-a2-box16")

    assert done.returncode == 0, done.stderr
    assert "Newest documented version set for this driver:" in done.stdout
    assert "CANN               8.0.RC1   installed" in done.stdout
    assert "installed: 3.1.0" in done.stdout
    assert "documented, 2025-07" in done.stdout
    assert "pip install paddlepaddle==3.1.0a0 -i https://www.paddlepaddle.org.cn/packages/stable/cpu/" in done.stdout
    wide = [line for line in done.stdout.splitlines() if len(line) > 60]
    assert [line for line in wide if not line.startswith(("  pip ", "  image ", "    https://"))] == []


def test_screen_of_a_set_for_torch() -> None:
    """The same for torch, as one document: versions, changes, verdicts with sources, commands."""
    done = _solve_on("atlas-800t-a3", "--library", "torch", "--json")
    said = json.loads(done.stdout)

    assert done.returncode == 0
    assert said["tested"]["versions"]["torch-npu"] == "2.12.0.post2"
    assert "cann" in said["tested"]["changes"] and "npu-driver" not in said["tested"]["changes"]
    assert all(each["source"] and each["date"] for each in said["tested"]["pairs"])
    assert "pip install torch-npu==2.12.0.post2" in said["tested"]["commands"]
    assert {v["verdict"] for v in said["installed_pairs"]} <= {"tested", "known bad", "unknown"}


def test_packages_that_are_not_there_are_to_be_installed() -> None:
    """A set of which nothing is here differs in nothing that is here, and yet there is something to do."""
    done = _solve_on("atlas-800t-a2", "--library", "torch")

    assert "nothing to change" not in done.stdout
    assert "pip install torch-npu==" in done.stdout


def test_no_set_ends_with_1() -> None:
    """Without a tested set the exit code is 1, and the screen shows the next step."""
    done = run_solve("--device", "npu", "--driver", "25.5.2", "--arch", "aarch64")

    assert done.returncode == 1
    assert "No documented version set is known for this driver." in done.stdout
    assert "envcheck doctor --deep" in done.stdout


def test_another_driver_is_advised_only_where_one_helps() -> None:
    """No wheel of paddlepaddle-gpu is for aarch64, whatever the driver: another framework is asked for instead."""
    done = run_solve("--device", "nvidia", "--driver", "550.54.15", "--arch", "aarch64")

    assert done.returncode == 1
    assert "--library" in done.stdout and "another driver" not in done.stdout


def test_what_is_here_and_nobody_calls_bad_is_unknown() -> None:
    """A complete installed set, partly documented and without known faults, is unknown; exit code 3."""
    done = _solve_on("atlas-800t-a2")
    said = json.loads(_solve_on("atlas-800t-a2", "--json").stdout)
    open_ = {tuple(v["components"].values()) for v in said["installed_pairs"] if v["confidence"] == "inferred"}

    assert (done.returncode, said["verdict"], said["tested"]) == (3, "unknown", None)
    assert "Unknown: no documented version set is known for this driver." in done.stdout
    assert open_ == {("3.1.0", "3.1.0"), ("3.1.0", "aarch64")}
    assert "3.1.0 with processor aarch64; documented with x86_64" in " ".join(done.stdout.split())
    assert "3.1.0 with CANN" not in done.stdout
    assert "CANN               8.0.0" not in done.stdout


def test_what_is_here_counts_for_its_own_driver_alone() -> None:
    """The installed set does not count for another driver, nor with a known incompatibility."""
    goal = TABLE.goals["npu", "paddle"]
    here_ = {"npu-driver": "24.1.rc1", "architecture": "aarch64", "cann": "8.0.RC1", "python": "3.10"}
    here_ |= {"paddlepaddle": "3.1.0", "paddle-custom-npu": "3.1.0"}

    def told(driver: str, found: dict[str, str]) -> version_sets.SolveReport:
        answered = solver.VersionSolution(None)
        return version_sets.SolveReport(
            "npu", "paddle", driver, "aarch64", goal, answered, found, pair_verdicts.evaluate_pairs(found), TABLE
        )

    assert version_sets.exit_code(told("24.1.rc1", here_)) == 3
    assert version_sets.exit_code(told("25.5.2", here_)) == 1
    assert version_sets.exit_code(told("24.1.rc1", {**here_, "paddlepaddle": "3.3.0"})) == 1
    assert version_sets.exit_code(told("24.1.rc1", {name: v for name, v in here_.items() if name != "cann"})) == 1


def test_driver_that_does_not_answer_is_told() -> None:
    """Without a known driver version: exit code 3, and the option to specify it."""
    done = _solve_on("bi-v150x8", faults=("tool-missing",))

    assert done.returncode == 3
    assert "cannot determine the driver version" in done.stderr and "--driver VERSION" in done.stderr


def test_known_bad_pair_of_the_machine_is_shown() -> None:
    """A known incompatibility is shown with symptom and remedy."""
    goal = TABLE.goals["npu", "paddle"]
    found = {"npu-driver": "24.1.rc1", "architecture": "x86_64", "numpy": "2.4.0", "paddlepaddle": "3.1.0\x1b[31m"}
    found["cann"] = "8.0.RC1"
    answered = solver.solve_versions(goal, "24.1.rc1", "x86_64")
    told = version_sets.SolveReport(
        "npu", "paddle", "24.1.rc1", "x86_64", goal, answered, found, pair_verdicts.evaluate_pairs(found), TABLE
    )
    screen = version_sets.as_text(told, 60)

    assert "Known incompatibilities on this machine:\n  CANN 8.0.RC1 with numpy 2.4.0: error 500001" in screen
    assert "\x1b" not in screen


@pytest.mark.parametrize(("argv", "code", "said"), REFUSALS, ids=[" ".join(a) or "-" for a, _, _ in REFUSALS])
def test_refusals(argv: tuple[str, ...], code: int, said: str) -> None:
    """Usage errors and unknown results have one message, a next step, and the documented exit code."""
    done = run_solve(*argv)

    assert done.returncode == code
    assert said in done.stderr and "next: " in done.stderr
    assert "Traceback" not in done.stderr and not done.stdout


def test_snapshot_is_solved_like_the_machine(tmp_path: Path) -> None:
    """A recording gives the answer that the machine gave."""
    place = tmp_path / "a2.json"
    taken = _run_on("atlas-200t-a2-box16", "snapshot", "-o", str(place))
    assert taken.returncode == 0, taken.stderr

    replayed, live = run_solve("--replay", str(place), "--json"), _solve_on("atlas-200t-a2-box16", "--json")

    assert json.loads(replayed.stdout) == json.loads(live.stdout)


def test_nothing_of_a_framework_is_imported() -> None:
    """Versions are read from metadata: no framework, nor docker, is loaded in envcheck's own process."""
    heavy = ("paddle", "torch", "torch_npu", "numpy", "docker", "rich")
    code = f"""
import sys
from envcheck.cli import main as cli
try:
    cli.entry(["solve", "--device", "npu", "--driver", "24.1.rc1", "--arch", "x86_64"])
except SystemExit as ended:
    print([name for name in {heavy!r} if name in sys.modules], ended.code)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120)

    assert done.stdout.splitlines()[-1] == "[] 0"


def _solve_on(name: str, *argv: str, faults: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    return _run_on(name, "solve", *argv, faults=faults)


def _run_on(name: str, verb: str, *argv: str, faults: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """A verb on a simulated machine, on a terminal of 60 columns."""
    wrong = [word for fault in faults for word in ("--fault", fault)]
    command = [sys.executable, "-m", "envcheck", "simulate", name, *wrong, "--", sys.executable, "-m", "envcheck"]
    env = {**os.environ, "COLUMNS": "60"}
    return subprocess.run([*command, verb, *argv], cwd=ROOT, capture_output=True, text=True, timeout=300, env=env)


SCREENS = (
    ("atlas-800t-a2", ()),
    ("atlas-200t-a2-box16", ()),
    ("atlas-800t-a3", ()),
    ("h200x8", ("--library", "torch")),
)


@pytest.mark.parametrize(("machine", "asked"), SCREENS, ids=[name for name, _ in SCREENS])
def test_screen_in_chinese(machine: str, asked: tuple[str, ...]) -> None:
    """Headings, what is lacking, and the next step are Chinese; versions and commands are those of the English one."""
    chinese, english = _solve_on(machine, *asked, "--lang", "zh"), _solve_on(machine, *asked, "--lang", "en")
    headings = [line for line in chinese.stdout.splitlines() if line and not line.startswith(" ")]
    commands = [line for line in english.stdout.splitlines() if line.startswith(("  pip ", "  envcheck "))]

    assert chinese.returncode == english.returncode
    assert [line for line in headings if not re.search("[\u4e00-\u9fff]|^npu|^nvidia", line)] == []
    assert set(commands) <= set(chinese.stdout.splitlines())
