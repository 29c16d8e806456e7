"""envcheck.pyz under a bare Python: what runs, and what happens to its copy in the user's cache."""

from __future__ import annotations

import fcntl
import hashlib
import io
import json
import platform
import shutil
import subprocess
import zipfile
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

from envcheck.cli import schemas
from envcheck.payload import psutil_libraries, pyz
from envcheck.payload.content import Payload
from envcheck.simulate import machine_file, simulated_run
from tests.envcheck.payload import pyz_parts
from tests.envcheck.payload.pyz_parts import BarePython

pytestmark = pytest.mark.slow

NPU_SMI = Path(__file__).parents[2] / "data/npu_smi/info/910b_sparse_ids.txt"
RUN = "#!/bin/bash\ntorchrun --nproc_per_node 8 train.py\n"
JOBS = {  # machine and the job to check on it
    "atlas-800t-a2": ("--recipe", "qwen-7b-npu-swift", "--method", "lora", "--variant", "zero3"),
    "h200x8": ("--recipe", "ernie-0.3b-nvidia", "--method", "lora", "--waive", "disk", "--because", "it is small"),
    "bi-v150x8": ("--recipe", "ernie-21b-iluvatar", "--method", "lora"),
}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> BarePython:
    """One home for the tests that leave it as it is."""
    return pyz_parts.make_payload(tmp_path_factory.mktemp("pyz"))


@pytest.fixture
def bare(shared: BarePython, tmp_path: Path) -> BarePython:
    """An empty home."""
    (tmp_path / "home").mkdir()
    return replace(shared, home=tmp_path / "home")


def make_simulated_variables(machine: str, folder: Path) -> dict[str, str]:
    with simulated_run.write_machine_folder(machine_file.load_machine(machine, None), folder / "root"):
        pass
    return {"ENVCHECK_SYSROOT": str(folder / "root"), "ENVCHECK_HOME": str(folder / "data")}


def test_what_reads_and_plans(shared: BarePython, tmp_path: Path) -> None:
    """doctor, snapshot and its replay, parse, plan, explain and the list of recipes answer on a bare Python."""
    env = make_simulated_variables("atlas-800t-a2", tmp_path)
    (tmp_path / "log").write_text("RuntimeError: NPU out of memory. Tried to allocate 2.00 GiB\n")
    record = str(tmp_path / "snapshot.json")

    doctor = shared.run_payload("doctor", "--device", "npu", "--json", env=env)
    taken = shared.run_payload("snapshot", "-o", record, env=env)
    again = shared.run_payload("doctor", "--replay", record, "--json")
    planned = shared.run_payload(
        "plan", "--model", "21b", "--method", "lora", "--devices", "8", "--memory", "64", "--json"
    )
    parsed = shared.run_payload("parse", "npu-smi", str(NPU_SMI))
    explained = shared.run_payload("explain", str(tmp_path / "log"), "--json")
    recipes = shared.run_payload("recipes", "--json")

    assert json.loads(doctor.stdout)["findings"], doctor.stderr
    assert taken.returncode == 0, taken.stderr
    assert json.loads(again.stdout)["findings"], again.stderr
    assert json.loads(planned.stdout), planned.stderr
    assert json.loads(parsed.stdout)["devices"], parsed.stderr
    assert json.loads(explained.stdout)["diagnoses"], explained.stderr
    assert len(json.loads(recipes.stdout)["recipes"]) > 5, recipes.stderr


def test_lint_of_a_script_is_unknown(shared: BarePython, tmp_path: Path) -> None:
    """Without the shell's grammar a script is UNKNOWN with the reason, exit code 3; a configuration is judged."""
    (tmp_path / "run.sh").write_text(RUN)
    (tmp_path / "ds.json").write_text('{"train_batch_size": 1, "zero_optimization": {"stage": 7}}')
    script = shared.run_payload("lint", str(tmp_path / "run.sh"))
    config = shared.run_payload("lint", str(tmp_path / "ds.json"))

    assert (script.returncode, "tree-sitter is not installed" in script.stdout) == (3, True), script.stderr
    assert (config.returncode, "config.deepspeed" in config.stdout) == (1, True), config.stdout + config.stderr


@pytest.mark.parametrize("machine", JOBS)
def test_gates_are_walked(machine: str, shared: BarePython, tmp_path: Path) -> None:
    """On each vendor's simulated machine all launch checks run; the environment is not provisioned, so the exit code
    is 1."""
    done = shared.run_payload("train", "--gates", *JOBS[machine], env=make_simulated_variables(machine, tmp_path))

    assert (done.returncode, "gate.devices" in done.stdout) == (1, True), done.stdout + done.stderr


@pytest.mark.real
def test_it_trains(shared: BarePython, paddle_home: Path, tmp_path: Path) -> None:
    """The tiny model trains on the CPU, in an environment that was provisioned before."""
    env = {"ENVCHECK_HOME": str(paddle_home)}
    words = ("--model", "tiny", "--method", "lora", "--device", "cpu", "--steps", "3", "--runs", str(tmp_path / "runs"))
    done = shared.run_payload("train", *words, env=env)
    run = next((tmp_path / "runs").glob("*-*/run.json"))

    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(run.read_text())["state"] == "succeeded"


def test_slurm_starts_the_very_file(shared: BarePython, tmp_path: Path) -> None:
    """The script for Slurm names the file that was run, which must be executable for that."""
    words = ("train", "--on", "slurm", "--model", "tiny", "--method", "lora", "--device", "cpu", "--dry-run")
    shared.file.chmod(0o644)
    refused = shared.run_payload(*words)
    shared.file.chmod(0o755)
    done = shared.run_payload(*words)

    assert (refused.returncode, f"chmod +x {shared.file}" in refused.stderr) == (2, True), refused.stderr
    assert (done.returncode, str(shared.file) in done.stdout) == (0, True), done.stderr


@pytest.mark.parametrize("version", ("3.10", "3.11", "3.12", "3.13"))
def test_every_python(version: str, shared: BarePython) -> None:
    """From 3.10 on, which reads no TOML by itself."""
    if (python := pyz_parts.find_interpreter(version)) is None:
        pytest.skip(f"Python {version} not found")
    done = shared.run_payload("recipes", "--json", python=python)

    assert (done.returncode, len(json.loads(done.stdout)["recipes"]) > 5) == (0, True), done.stderr


@pytest.mark.parametrize("version", ("2.7", "3.6", "3.9"))
def test_an_old_python_is_one_sentence(version: str, bare: BarePython) -> None:
    """Exit code 2, and nothing is written."""
    if (python := pyz_parts.find_interpreter(version)) is None:
        pytest.skip(f"Python {version} not found")
    ends = [
        subprocess.run([python, bare.file, *words], env={"HOME": str(bare.home)}, capture_output=True, text=True)
        for words in (["doctor"], ["doctor", "--json"])
    ]
    why = f"envcheck.pyz requires Python 3.10 or newer; this is Python {version}"
    document = json.loads(ends[1].stdout)

    assert [(end.returncode, end.stderr.splitlines()[0]) for end in ends] == [(2, f"envcheck: {why}")] * 2
    assert (ends[0].stdout, list(bare.home.iterdir())) == ("", [])
    assert (document["error"], document["exit_code"], bool(document["next"])) == (why, 2, True)


def test_another_machine_is_one_sentence(bare: BarePython) -> None:
    """Exit code 2: the kernel calls itself i686."""
    if not shutil.which("setarch") or platform.machine() != "x86_64":
        pytest.skip("setarch is missing, or has no other machine to offer")
    argv = ["setarch", "i686", pyz_parts.BASE, str(bare.file), "doctor"]
    done = subprocess.run(argv, capture_output=True, text=True)

    assert (done.returncode, done.stderr.count("\n")) == (2, 2)
    assert "envcheck.pyz requires x86_64 or aarch64; this host is i686" in done.stderr


def test_no_psutil_for_this_machine(bare: BarePython, tmp_path: Path) -> None:
    """An archive built without psutil for this machine prints the remedy and exits with 2."""
    file = tmp_path / "without.pyz"
    file.write_bytes(pyz.pack_files({}))
    done = replace(bare, file=file).run_payload("doctor")

    assert (done.returncode, done.stdout) == (2, "")
    assert f"this envcheck.pyz has no psutil for {platform.machine()}" in done.stderr
    assert "next: install python3-psutil" in done.stderr


def test_twice_at_once(bare: BarePython) -> None:
    """Several processes that find no copy unpack one, and all of them answer."""
    children = [bare.start_payload("--version") for _ in range(4)]
    ends = [child.communicate(timeout=120) for child in children]

    assert [child.returncode for child in children] == [0] * 4, ends
    assert [path.name for path in bare.cache_folder.iterdir()] == [f"pyz-{pyz.build_payload().digest[:16]}"]


def test_a_damaged_copy_is_replaced(bare: BarePython) -> None:
    """Other bytes, a file that is gone, a list of sums that is cut off: it is unpacked again."""
    bare.run_payload("--version")
    place = next(bare.cache_folder.iterdir())
    main = place / "envcheck" / "cli" / "main.py"
    whole = main.read_bytes()
    for damage in (
        lambda: main.write_bytes(b"raise SystemExit(7)"),
        main.unlink,
        lambda: (place / ".sums").write_bytes(b""),
    ):
        damage()
        done = bare.run_payload("--version")
        assert (done.returncode, main.read_bytes() == whole) == (0, True), done.stderr


def test_what_others_may_write_is_not_used(bare: BarePython) -> None:
    """An unpacked copy that other users can write to is not run, even if its checksums match."""
    bare.run_payload("--version")
    place = next(bare.cache_folder.iterdir())
    place.chmod(0o777)
    done = bare.run_payload("--version")

    assert done.returncode == 0, done.stderr
    assert place.stat().st_mode & 0o022 == 0


def test_what_is_used_is_not_removed(bare: BarePython, tmp_path: Path) -> None:
    """A damaged copy that another process runs from stays; this process has a temporary one."""
    bare.run_payload("--version")
    place = next(bare.cache_folder.iterdir())
    (place / "click" / "core.py").unlink()
    with (place / ".sums").open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_SH)
        done = bare.run_payload("--version", env={"TMPDIR": str(tmp_path)})

    assert done.returncode == 0, done.stderr
    assert not (place / "click" / "core.py").exists()
    assert list(tmp_path.iterdir()) == [bare.home]


def test_no_home_to_write_to(bare: BarePython) -> None:
    """It runs from a temporary folder, of which nothing stays."""
    env = {"XDG_CACHE_HOME": "/proc/nothing", "TMPDIR": str(bare.home)}
    done = bare.run_payload("recipes", "--json", env=env)

    assert (done.returncode, list(bare.home.iterdir())) == (0, []), done.stderr


def test_it_carries_itself(shared: BarePython) -> None:
    """envcheck that runs from it writes the very same file."""
    done = shared.run_payload("pyz", "-o", str(shared.home / "copy.pyz"), "--json")
    said = json.loads(done.stdout)

    assert done.returncode == 0, done.stderr
    jsonschema.validate(said, schemas.build_schema("pyz"))
    assert said["sha256"] == hashlib.sha256(shared.file.read_bytes()).hexdigest()
    assert (shared.home / "copy.pyz").read_bytes() == shared.file.read_bytes()


def test_the_same_sources_give_the_same_bytes() -> None:
    """And psutil is the library of its machine."""
    libraries = {each: data for each in pyz.MACHINES if (data := psutil_libraries.find_library(each))}
    found = Payload.from_data(pyz.pack_files(libraries))

    assert found.digest == Payload.from_data(pyz.pack_files(libraries)).digest
    with zipfile.ZipFile(io.BytesIO(found.data)) as archive:
        for machine in libraries:
            data = archive.read(f"native/{machine}/psutil/{psutil_libraries.FILE}")
            assert psutil_libraries.is_built_for(machine, data)


@pytest.mark.real
def test_psutil_of_the_other_machine() -> None:
    """The package index has it for aarch64 and x86_64, of the version that is here; it is kept with its sum."""
    for machine in pyz.MACHINES:
        data = psutil_libraries.find_library(machine, fetch=True)
        assert data is not None and psutil_libraries.is_built_for(machine, data)
        assert psutil_libraries.find_library(machine) == data
    assert pyz.list_machines(pyz.build_payload(frozenset(pyz.MACHINES))) == list(pyz.MACHINES)


EARLY = """
import os, runpy, signal, sys

def stop(event, args):
    if event == {event!r} and args[0] == ({name!r} or args[0]) and not seen:
        seen.append(event)
        os.kill(os.getpid(), signal.SIGINT)

seen = []
sys.addaudithook(stop)
sys.argv = [{file!r}, "doctor", "--device", "cpu"]
runpy.run_path({file!r}, run_name="__main__")
"""


@pytest.mark.parametrize(
    ("event", "name"),
    [("import", "envcheck.payload.unpack"), ("import", "zipfile"), ("os.rename", ""), ("import", "click")],
)
def test_an_early_interrupt_is_silent(bare: BarePython, event: str, name: str) -> None:
    """Ctrl-C while the file is read, unpacked and imported ends with 130 and no traceback; nothing half remains."""
    text = EARLY.format(event=event, name=name, file=str(bare.file))
    env = {"PATH": "/usr/bin:/bin", "HOME": str(bare.home)}

    done = subprocess.run(
        [pyz_parts.BASE, "-I", "-S", "-c", text], env=env, cwd=bare.home, capture_output=True, text=True, timeout=240
    )

    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
    assert not list(bare.cache_folder.glob("part-*"))
