"""envcheck doctor --deep from the command line: the real paddle and torch on the processor, and a simulated machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pexpect
import pytest

from envcheck.core.model import Status
from envcheck.deep import session, table
from envcheck.deep.session import Wish
from envcheck.simulate import faults
from envcheck.simulate import machine_file as described
from envcheck.simulate import session as simulation
from tests.envcheck.deep.deep_parts import SMALL, cards, faulty, interpreter

ROOT = Path(__file__).parents[3]


def run(home: Path, *options: str, **env: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "envcheck", "doctor", *options]
    given = {**os.environ, "ENVCHECK_HOME": str(home), "ENVCHECK_DEEP_MIB": "4", **env}
    return subprocess.run(
        argv, cwd=ROOT, env=given, capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL
    )


def findings(done: subprocess.CompletedProcess[str]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for each in json.loads(done.stdout)["findings"]:
        found.setdefault(each["name"], []).append(each)
    return found


def test_the_processor_by_torch(torch_environment: Path, tmp_path: Path) -> None:
    """torch on the CPU multiplies in bf16 within what rounding explains, and two processes add up over gloo."""
    way = interpreter(torch_environment, "torch", "cpu", tmp_path)
    found = session.examine(cards("cpu", 1), way, Wish(SMALL), print)

    assert {name: f.status for name, some in found.items() for f in some} == {
        "deep.cards": Status.OK,
        "deep.matmul": Status.OK,
        "deep.memory": Status.OK,
        "deep.copy": Status.NOT_APPLICABLE,
        "deep.peer": Status.NOT_APPLICABLE,
        "deep.allreduce": Status.OK,
    }
    assert "in bf16" in found["deep.matmul"][0].seen
    assert "2 processes add up rightly" in found["deep.allreduce"][0].seen


def test_the_processor_by_paddle(paddle_home: Path) -> None:
    """It finds the provisioned environment, says beforehand what it will do; its command can be pasted."""
    done = run(
        paddle_home, "--device", "cpu", "--deep", "--yes", "--only", "deep", "--json", ENVCHECK_DEEP_SECONDS="0.1"
    )
    found = findings(done)

    assert done.returncode == 0, done.stdout + done.stderr
    assert list(found) == list(table.NAMES)
    assert "tiny-cpu" in found["deep.cards"][0]["seen"]
    assert "add up rightly" in found["deep.allreduce"][0]["seen"]
    command = found["deep.matmul"][0]["evidence"][0].removeprefix("$ ")
    again = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=120)
    assert '"did": "matmul"' in again.stdout, command
    assert done.stderr.index("--deep works on this machine's processor") < done.stderr.index("matmul, device cpu")


@pytest.mark.parametrize(
    ("options", "words"),
    (
        (("--deep", "--yes", "--only", "deep"), "is no number above 0"),
        (("--deep",), "nobody to ask"),
        (("--deep", "--yes", "--replay", "x.json"), "--replay cannot be combined with --deep"),
        (("--deep", "--yes", "--fix"), "--deep cannot be combined with --fix"),
        (("--deep", "--dry-run", "--json"), "makes no report"),
        (("--only", "deep.matmul"), "without --deep"),
    ),
)
def test_refused(options: tuple[str, ...], words: str, tmp_path: Path) -> None:
    """Without a person to ask, on a recording, with --fix, or with a figure that is none: a sentence, a next step."""
    done = run(tmp_path, "--device", "cpu", *options, ENVCHECK_DEEP_MIB="lots")

    assert done.returncode == 2
    assert words in done.stderr
    assert "next: " in done.stderr


def test_the_plan_is_shown(paddle_home: Path) -> None:
    """--dry-run says what would be disturbed, asks nobody, and starts nothing: fit, as other dry runs."""
    done = run(paddle_home, "--device", "cpu", "--deep", "--dry-run")

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("--deep works on this machine's processor with paddle")
    assert "seconds, up to" in done.stdout and "matmul, device" not in done.stdout


def test_no_plan(tmp_path: Path) -> None:
    """Where nothing could be tested --dry-run says why, and what helps: it could not be told."""
    done = run(tmp_path, "--device", "cpu", "--deep", "--dry-run", VIRTUAL_ENV="", CONDA_PREFIX="")

    assert done.returncode == 3
    assert (
        done.stdout.startswith("deep.cards: no Python with paddle or torch")
        and "envcheck provision --device cpu" in done.stdout
    )


@pytest.mark.parametrize(("answer", "code"), (("n", 3), ("\x03", 130)), ids=("no", "Ctrl-C"))
def test_a_person_is_asked(paddle_home: Path, answer: str, code: int) -> None:
    """On a terminal it says what it will do and asks; who says no has not been told, and nothing was started."""
    argv = ["-m", "envcheck", "doctor", "--device", "cpu", "--deep", "--only", "deep"]
    env = {**os.environ, "ENVCHECK_HOME": str(paddle_home), "NO_COLOR": "1"}
    child = pexpect.spawn(sys.executable, argv, cwd=str(ROOT), env=env, timeout=120, encoding="utf-8")
    child.expect("Start them")
    asked = child.before or ""
    child.sendline(answer) if code == 3 else child.send(answer)
    child.expect(pexpect.EOF)
    child.wait()

    assert "works on this machine's processor" in asked
    assert "starting paddle" not in (child.before or "")
    assert child.exitstatus == code


def test_no_framework(tmp_path: Path) -> None:
    """Where no Python has a framework nothing is told: unknown, with the command that installs one."""
    empty = tmp_path / "bin"
    empty.mkdir()
    done = run(
        tmp_path, "--device", "cpu", "--deep", "--yes", "--only", "deep", "--json", VIRTUAL_ENV="", CONDA_PREFIX=""
    )
    found = findings(done)

    assert done.returncode == 3
    assert "no Python with paddle or torch" in found["deep.cards"][0]["seen"]
    assert found["deep.cards"][0]["remedy"]["commands"] == ["envcheck provision --device cpu"]
    assert {found[name][0]["status"] for name in table.NAMES[1:]} == {"BLOCKED"}


def provisioned(home: Path, paddle: Path, vendor: str) -> None:
    """An environment of tiny-VENDOR that borrows all of tiny-cpu's packages, and says that it has the plugin."""
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


def recipes(folder: Path) -> Path:
    """tiny-npu without the vendor's scripts, which this machine lacks."""
    folder.mkdir()
    lines = (ROOT / "installers/recipes/tiny-npu.toml").read_text().splitlines()
    (folder / "tiny-npu.toml").write_text("\n".join(line for line in lines if not line.startswith("scripts = ")))
    return folder


@pytest.mark.parametrize(
    "wishes", [pytest.param((), marks=pytest.mark.extended), ("memory-held",)], ids=("idle", "in use")
)
def test_a_simulated_machine(wishes: tuple[str, ...], paddle_environment: Path, tmp_path: Path) -> None:
    """Eight cards of a simulated machine, worked on by the real paddle; the one in use is named, and left alone."""
    plugin = faulty(paddle_environment, "npu", tmp_path / "plugin")
    provisioned(tmp_path, paddle_environment, "npu")
    ready = faults.apply(described.load("atlas-800t-a2", None), [faults.asked(wish) for wish in wishes])
    options = ("--deep", "--yes", "--only", "deep", "--json", "--recipes", str(recipes(tmp_path / "own")))
    if wishes:
        options += ("--skip", "deep.matmul", "--skip", "deep.copy")
    with simulation.written(ready, None) as folder:
        env = {"ENVCHECK_SYSROOT": str(folder), "CUSTOM_DEVICE_ROOT": str(plugin), "FAKE_DEVICES": "8"}
        done = run(tmp_path, *options, "--skip", "deep.allreduce", ENVCHECK_DEEP_SECONDS="0.1", **env)
    found = findings(done)

    if not wishes:
        assert "8 cards tested by paddle 3.1.0" in found["deep.cards"][0]["seen"], done.stdout + done.stderr
        assert found["deep.memory"][0]["seen"] == "4 MiB of devices 0-7 filled and read back"
        assert "HCCS" in found["deep.peer"][0]["seen"]
        assert "float32" in found["deep.matmul"][0]["seen"]  # the processor's kernels lack bf16
        assert "8 × Huawei Ascend (devices 0-7)" in done.stderr
    else:
        assert found["deep.cards"][0]["status"] == "UNKNOWN"
        assert "not tested, in use: device" in found["deep.cards"][0]["seen"]
        assert "cards tested by" in found["deep.cards"][0]["details"][0]["seen"]
        assert done.returncode == 3
    assert all(each["status"] != "FAIL" for some in found.values() for each in some)
