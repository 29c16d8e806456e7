"""envcheck doctor --deep from the command line: the real paddle and torch on the processor, and a simulated machine."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pexpect
import pytest

from envcheck.core.model import Status
from envcheck.deep import active_tests, check_table
from envcheck.deep.active_tests import DeepRequest
from envcheck.simulate import faults
from envcheck.simulate import machine_file as described
from envcheck.simulate import simulated_run as simulation
from tests.envcheck.deep.deep_parts import SMALL, make_cards, make_faulty_plugin, make_interpreter

ROOT = Path(__file__).parents[3]


def run_doctor(home: Path, *options: str, **env: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "envcheck", "doctor", *options]
    given = {**os.environ, "ENVCHECK_HOME": str(home), "ENVCHECK_DEEP_MIB": "4", **env}
    return subprocess.run(
        argv, cwd=ROOT, env=given, capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL
    )


def read_findings(done: subprocess.CompletedProcess[str]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for each in json.loads(done.stdout)["findings"]:
        found.setdefault(each["name"], []).append(each)
    return found


def test_the_processor_by_torch(torch_environment: Path, tmp_path: Path) -> None:
    """torch on the CPU multiplies in bf16 within what rounding explains, and two processes add up over gloo."""
    way = make_interpreter(torch_environment, "torch", "cpu", tmp_path)
    found = active_tests.examine_cards(make_cards("cpu", 1), way, DeepRequest(SMALL), print)

    assert {name: f.status for name, some in found.items() for f in some} == {
        "deep.cards": Status.OK,
        "deep.matmul": Status.OK,
        "deep.memory": Status.OK,
        "deep.copy": Status.NOT_APPLICABLE,
        "deep.peer": Status.NOT_APPLICABLE,
        "deep.allreduce": Status.OK,
    }
    assert "in bf16" in found["deep.matmul"][0].seen
    assert re.match(r"2 processes: all-reduce of \d+ MiB is correct, ", found["deep.allreduce"][0].seen)


def test_the_processor_by_paddle(paddle_home: Path) -> None:
    """doctor --deep finds the provisioned environment and prints the plan first; the printed command runs as it is."""
    done = run_doctor(
        paddle_home, "--device", "cpu", "--deep", "--yes", "--only", "deep", "--json", ENVCHECK_DEEP_SECONDS="0.1"
    )
    found = read_findings(done)

    assert done.returncode == 0, done.stdout + done.stderr
    assert list(found) == list(check_table.NAMES)
    assert "tiny-cpu" in found["deep.cards"][0]["seen"]
    assert re.match(r"2 processes: all-reduce of \d+ MiB is correct, ", found["deep.allreduce"][0]["seen"])
    command = found["deep.matmul"][0]["evidence"][0].removeprefix("$ ")
    again = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=120)
    assert '"did": "matmul"' in again.stdout, command
    assert done.stderr.index("--deep tests the CPU of this host") < done.stderr.index("matmul: device cpu")


@pytest.mark.parametrize(
    ("options", "words"),
    (
        (("--deep", "--yes", "--only", "deep"), "expected a number above 0 and up to 1048576"),
        (("--deep",), "cannot ask for confirmation"),
        (("--deep", "--yes", "--replay", "x.json"), "--replay cannot be combined with --deep"),
        (("--deep", "--yes", "--fix"), "--deep cannot be combined with --fix"),
        (("--deep", "--dry-run", "--json"), "writes no report"),
        (("--only", "deep.matmul"), "requires --deep"),
    ),
)
def test_refused(options: tuple[str, ...], words: str, tmp_path: Path) -> None:
    """Without a terminal, on a snapshot, with --fix or with an invalid number: an error with a next step."""
    done = run_doctor(tmp_path, "--device", "cpu", *options, ENVCHECK_DEEP_MIB="lots")

    assert done.returncode == 2
    assert words in done.stderr
    assert "next: " in done.stderr


def test_the_plan_is_shown(paddle_home: Path) -> None:
    """--dry-run prints what would be disturbed, does not ask, starts nothing and exits with 0."""
    done = run_doctor(paddle_home, "--device", "cpu", "--deep", "--dry-run")

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("--deep tests the CPU of this host with paddle")
    assert " s and up to 4 MiB of memory; a hanging test" in done.stdout and "matmul: device" not in done.stdout


def test_no_plan(tmp_path: Path) -> None:
    """When nothing can be tested, --dry-run prints the reason and the remedy, and exits with 3."""
    done = run_doctor(tmp_path, "--device", "cpu", "--deep", "--dry-run", VIRTUAL_ENV="", CONDA_PREFIX="")

    assert done.returncode == 3
    assert (
        done.stdout.startswith("deep.cards: no Python with paddle or torch")
        and "envcheck provision --device cpu" in done.stdout
    )


@pytest.mark.parametrize(("answer", "code"), (("n", 3), ("\x03", 130)), ids=("no", "Ctrl-C"))
def test_a_person_is_asked(paddle_home: Path, answer: str, code: int) -> None:
    """On a terminal it prints the plan and asks; the answer no starts nothing and gives UNKNOWN."""
    argv = ["-m", "envcheck", "doctor", "--device", "cpu", "--deep", "--only", "deep"]
    env = {**os.environ, "ENVCHECK_HOME": str(paddle_home), "NO_COLOR": "1"}
    child = pexpect.spawn(sys.executable, argv, cwd=str(ROOT), env=env, timeout=120, encoding="utf-8")
    child.expect("Start the tests")
    asked = child.before or ""
    child.sendline(answer) if code == 3 else child.send(answer)
    child.expect(pexpect.EOF)
    child.wait()

    assert "--deep tests the CPU of this host" in asked
    assert "starting paddle" not in (child.before or "")
    assert child.exitstatus == code


def test_no_framework(tmp_path: Path) -> None:
    """Without a Python that has a framework the result is UNKNOWN, with the command that installs one."""
    empty = tmp_path / "bin"
    empty.mkdir()
    done = run_doctor(
        tmp_path, "--device", "cpu", "--deep", "--yes", "--only", "deep", "--json", VIRTUAL_ENV="", CONDA_PREFIX=""
    )
    found = read_findings(done)

    assert done.returncode == 3
    assert "no Python with paddle or torch" in found["deep.cards"][0]["seen"]
    assert found["deep.cards"][0]["remedy"]["commands"] == ["envcheck provision --device cpu"]
    assert {found[name][0]["status"] for name in check_table.NAMES[1:]} == {"BLOCKED"}


def make_environment(home: Path, paddle: Path, vendor: str) -> None:
    """An environment tiny-VENDOR that uses the packages of tiny-cpu and records the vendor's plugin as installed."""
    folder = home / "environments" / f"tiny-{vendor}"
    (site,) = paddle.glob("lib/python3*/site-packages")
    own = folder / site.relative_to(paddle)
    own.mkdir(parents=True)
    for each in site.iterdir():
        (own / each.name).symlink_to(each)
    name = {"npu": "paddle-custom-npu", "iluvatar": "paddle-iluvatar-gpu"}[vendor]
    info = own / f"{name.replace('-', '_')}-3.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 3.1.0\n")
    (info / "RECORD").touch()
    (folder / "bin").mkdir()
    (folder / "bin" / "python").symlink_to((paddle / "bin" / "python").resolve())
    (folder / "pyvenv.cfg").write_text((paddle / "pyvenv.cfg").read_text())


def write_recipes(folder: Path) -> Path:
    """tiny-npu without the vendor's scripts, which this machine lacks."""
    folder.mkdir()
    lines = (ROOT / "installers/recipes/tiny-npu.toml").read_text().splitlines()
    (folder / "tiny-npu.toml").write_text("\n".join(line for line in lines if not line.startswith("scripts = ")))
    return folder


@pytest.mark.parametrize(
    "wishes", [pytest.param((), marks=pytest.mark.extended), ("memory-held",)], ids=("idle", "in use")
)
def test_a_simulated_machine(wishes: tuple[str, ...], paddle_environment: Path, tmp_path: Path) -> None:
    """Eight cards of a simulated machine, tested with the real paddle; the card in use is named and not touched."""
    plugin = make_faulty_plugin(paddle_environment, "npu", tmp_path / "plugin")
    make_environment(tmp_path, paddle_environment, "npu")
    ready = faults.apply_faults(
        described.load_machine("atlas-800t-a2", None), [faults.parse_fault(wish) for wish in wishes]
    )
    options = ("--deep", "--yes", "--only", "deep", "--json", "--recipes", str(write_recipes(tmp_path / "own")))
    if wishes:
        options += ("--skip", "deep.matmul", "--skip", "deep.copy")
    with simulation.write_machine_folder(ready, None) as folder:
        env = {"ENVCHECK_SYSROOT": str(folder), "CUSTOM_DEVICE_ROOT": str(plugin), "FAKE_DEVICES": "8"}
        done = run_doctor(tmp_path, *options, "--skip", "deep.allreduce", ENVCHECK_DEEP_SECONDS="0.1", **env)
    found = read_findings(done)

    if not wishes:
        assert "8 cards tested with paddle 3.1.0 from " in found["deep.cards"][0]["seen"], done.stdout + done.stderr
        assert found["deep.memory"][0]["seen"] == "4 MiB of devices 0-7 filled and read back"
        assert "HCCS" in found["deep.peer"][0]["seen"]
        assert "float32" in found["deep.matmul"][0]["seen"]  # the processor's kernels lack bf16
        assert "8 × Huawei Ascend (devices 0-7)" in done.stderr
    else:
        assert found["deep.cards"][0]["status"] == "UNKNOWN"
        assert "not tested because in use: device" in found["deep.cards"][0]["seen"]
        assert " cards tested with paddle 3.1.0 from " in found["deep.cards"][0]["details"][0]["seen"]
        assert done.returncode == 3
    assert all(each["status"] != "FAIL" for some in found.values() for each in some)
