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
from envcheck.simulate import machine_file, session
from tests.envcheck.payload import pyz_parts
from tests.envcheck.payload.pyz_parts import Bare

pytestmark = pytest.mark.slow

NPU_SMI = Path(__file__).parents[2] / "data/npu_smi/info/910b_sparse_ids.txt"
RUN = "#!/bin/bash\ntorchrun --nproc_per_node 8 train.py\n"
JOBS = {  # a machine, and a job whose gates are walked on it
    "atlas-800t-a2": ("--recipe", "qwen-7b-npu-swift", "--method", "lora", "--variant", "zero3"),
    "h200x8": ("--recipe", "ernie-0.3b-nvidia", "--method", "lora", "--waive", "disk", "--because", "it is small"),
    "bi-v150x8": ("--recipe", "ernie-21b-iluvatar", "--method", "lora"),
}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Bare:
    """One home for the tests that leave it as it is."""
    return pyz_parts.made(tmp_path_factory.mktemp("pyz"))


@pytest.fixture
def bare(shared: Bare, tmp_path: Path) -> Bare:
    """An empty home."""
    (tmp_path / "home").mkdir()
    return replace(shared, home=tmp_path / "home")


def simulated(machine: str, folder: Path) -> dict[str, str]:
    with session.written(machine_file.load(machine, None), folder / "root"):
        pass
    return {"ENVCHECK_SYSROOT": str(folder / "root"), "ENVCHECK_HOME": str(folder / "data")}


def test_what_reads_and_plans(shared: Bare, tmp_path: Path) -> None:
    """doctor, snapshot and its replay, parse, plan, explain and the list of recipes answer on a bare Python."""
    env = simulated("atlas-800t-a2", tmp_path)
    (tmp_path / "log").write_text("RuntimeError: NPU out of memory. Tried to allocate 2.00 GiB\n")
    record = str(tmp_path / "snapshot.json")

    doctor = shared.run("doctor", "--device", "npu", "--json", env=env)
    taken = shared.run("snapshot", "-o", record, env=env)
    again = shared.run("doctor", "--replay", record, "--json")
    planned = shared.run("plan", "--model", "21b", "--method", "lora", "--devices", "8", "--memory", "64", "--json")
    parsed = shared.run("parse", "npu-smi", str(NPU_SMI))
    explained = shared.run("explain", str(tmp_path / "log"), "--json")
    recipes = shared.run("recipes", "--json")

    assert json.loads(doctor.stdout)["findings"], doctor.stderr
    assert taken.returncode == 0, taken.stderr
    assert json.loads(again.stdout)["findings"], again.stderr
    assert json.loads(planned.stdout), planned.stderr
    assert json.loads(parsed.stdout)["devices"], parsed.stderr
    assert json.loads(explained.stdout)["diagnoses"], explained.stderr
    assert len(json.loads(recipes.stdout)["recipes"]) > 5, recipes.stderr


def test_lint_of_a_script_is_unknown(shared: Bare, tmp_path: Path) -> None:
    """Without the shell's grammar a script is UNKNOWN with the reason, exit code 3; a configuration is judged."""
    (tmp_path / "run.sh").write_text(RUN)
    (tmp_path / "ds.json").write_text('{"train_batch_size": 1, "zero_optimization": {"stage": 7}}')
    script = shared.run("lint", str(tmp_path / "run.sh"))
    config = shared.run("lint", str(tmp_path / "ds.json"))

    assert (script.returncode, "tree-sitter is missing" in script.stdout) == (3, True), script.stderr
    assert (config.returncode, "config.deepspeed" in config.stdout) == (1, True), config.stdout + config.stderr


@pytest.mark.parametrize("machine", JOBS)
def test_gates_are_walked(machine: str, shared: Bare, tmp_path: Path) -> None:
    """On each vendor's machine the gates are walked to the end: nothing is provisioned there, so one is closed."""
    done = shared.run("train", "--gates", *JOBS[machine], env=simulated(machine, tmp_path))

    assert (done.returncode, "gate.devices" in done.stdout) == (1, True), done.stdout + done.stderr


@pytest.mark.real
def test_it_trains(shared: Bare, paddle_home: Path, tmp_path: Path) -> None:
    """The tiny model trains on the CPU, in an environment that was provisioned before."""
    env = {"ENVCHECK_HOME": str(paddle_home)}
    words = ("--model", "tiny", "--method", "lora", "--device", "cpu", "--steps", "3", "--runs", str(tmp_path / "runs"))
    done = shared.run("train", *words, env=env)
    run = next((tmp_path / "runs").glob("*-*/run.json"))

    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(run.read_text())["state"] == "finished"


def test_slurm_starts_the_very_file(shared: Bare, tmp_path: Path) -> None:
    """The script for Slurm names the file that was run, which must be executable for that."""
    words = ("train", "--on", "slurm", "--model", "tiny", "--method", "lora", "--device", "cpu", "--dry-run")
    shared.file.chmod(0o644)
    refused = shared.run(*words)
    shared.file.chmod(0o755)
    done = shared.run(*words)

    assert (refused.returncode, f"chmod +x {shared.file}" in refused.stderr) == (2, True), refused.stderr
    assert (done.returncode, str(shared.file) in done.stdout) == (0, True), done.stderr


@pytest.mark.parametrize("version", ("3.10", "3.11", "3.12", "3.13"))
def test_every_python(version: str, shared: Bare) -> None:
    """From 3.10 on, which reads no TOML by itself."""
    if (python := pyz_parts.interpreter(version)) is None:
        pytest.skip(f"there is no Python {version}")
    done = shared.run("recipes", "--json", python=python)

    assert (done.returncode, len(json.loads(done.stdout)["recipes"]) > 5) == (0, True), done.stderr


@pytest.mark.parametrize("version", ("2.7", "3.6", "3.9"))
def test_an_old_python_is_one_sentence(version: str, bare: Bare) -> None:
    """Exit code 2, and nothing is written."""
    if (python := pyz_parts.interpreter(version)) is None:
        pytest.skip(f"there is no Python {version}")
    ends = [
        subprocess.run([python, bare.file, *words], env={"HOME": str(bare.home)}, capture_output=True, text=True)
        for words in (["doctor"], ["doctor", "--json"])
    ]
    why = f"envcheck.pyz needs Python 3.10 or newer; this is Python {version}"
    document = json.loads(ends[1].stdout)

    assert [(end.returncode, end.stderr.splitlines()[0]) for end in ends] == [(2, f"envcheck: {why}")] * 2
    assert (ends[0].stdout, list(bare.home.iterdir())) == ("", [])
    assert (document["error"], document["exit_code"], bool(document["next"])) == (why, 2, True)


def test_another_machine_is_one_sentence(bare: Bare) -> None:
    """Exit code 2: the kernel calls itself i686."""
    if not shutil.which("setarch") or platform.machine() != "x86_64":
        pytest.skip("setarch is missing, or has no other machine to offer")
    argv = ["setarch", "i686", pyz_parts.BASE, str(bare.file), "doctor"]
    done = subprocess.run(argv, capture_output=True, text=True)

    assert (done.returncode, done.stderr.count("\n")) == (2, 2)
    assert "needs a machine of type x86_64 or aarch64; this is i686" in done.stderr


def test_no_psutil_for_this_machine(bare: Bare, tmp_path: Path) -> None:
    """A file that was written without it says so, with what to do; exit code 2."""
    file = tmp_path / "without.pyz"
    file.write_bytes(pyz.pack({}))
    done = replace(bare, file=file).run("doctor")

    assert (done.returncode, done.stdout) == (2, "")
    assert f"this envcheck.pyz has no psutil for {platform.machine()}" in done.stderr
    assert "next: install python3-psutil" in done.stderr


def test_twice_at_once(bare: Bare) -> None:
    """Several processes that find no copy unpack one, and all of them answer."""
    children = [bare.start("--version") for _ in range(4)]
    ends = [child.communicate(timeout=120) for child in children]

    assert [child.returncode for child in children] == [0] * 4, ends
    assert [path.name for path in bare.cache.iterdir()] == [f"pyz-{pyz.build().digest[:16]}"]


def test_a_damaged_copy_is_replaced(bare: Bare) -> None:
    """Other bytes, a file that is gone, a list of sums that is cut off: it is unpacked again."""
    bare.run("--version")
    place = next(bare.cache.iterdir())
    main = place / "envcheck" / "cli" / "main.py"
    whole = main.read_bytes()
    for damage in (
        lambda: main.write_bytes(b"raise SystemExit(7)"),
        main.unlink,
        lambda: (place / ".sums").write_bytes(b""),
    ):
        damage()
        done = bare.run("--version")
        assert (done.returncode, main.read_bytes() == whole) == (0, True), done.stderr


def test_what_others_may_write_is_not_used(bare: Bare) -> None:
    """A copy that is writable for others is not run, whatever its sums say."""
    bare.run("--version")
    place = next(bare.cache.iterdir())
    place.chmod(0o777)
    done = bare.run("--version")

    assert done.returncode == 0, done.stderr
    assert place.stat().st_mode & 0o022 == 0


def test_what_is_used_is_not_removed(bare: Bare, tmp_path: Path) -> None:
    """A damaged copy that another process runs from stays; this process has a temporary one."""
    bare.run("--version")
    place = next(bare.cache.iterdir())
    (place / "click" / "core.py").unlink()
    with (place / ".sums").open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_SH)
        done = bare.run("--version", env={"TMPDIR": str(tmp_path)})

    assert done.returncode == 0, done.stderr
    assert not (place / "click" / "core.py").exists()
    assert list(tmp_path.iterdir()) == [bare.home]


def test_no_home_to_write_to(bare: Bare) -> None:
    """It runs from a temporary folder, of which nothing stays."""
    env = {"XDG_CACHE_HOME": "/proc/nothing", "TMPDIR": str(bare.home)}
    done = bare.run("recipes", "--json", env=env)

    assert (done.returncode, list(bare.home.iterdir())) == (0, []), done.stderr


def test_it_carries_itself(shared: Bare) -> None:
    """envcheck that runs from it writes the very same file."""
    done = shared.run("pyz", "-o", str(shared.home / "copy.pyz"), "--json")
    said = json.loads(done.stdout)

    assert done.returncode == 0, done.stderr
    jsonschema.validate(said, schemas.schema("pyz"))
    assert said["sha256"] == hashlib.sha256(shared.file.read_bytes()).hexdigest()
    assert (shared.home / "copy.pyz").read_bytes() == shared.file.read_bytes()


def test_the_same_sources_give_the_same_bytes() -> None:
    """And psutil is the library of its machine."""
    libraries = {each: data for each in pyz.MACHINES if (data := psutil_libraries.find(each))}
    found = Payload.of(pyz.pack(libraries))

    assert found.digest == Payload.of(pyz.pack(libraries)).digest
    with zipfile.ZipFile(io.BytesIO(found.data)) as archive:
        for machine in libraries:
            data = archive.read(f"native/{machine}/psutil/{psutil_libraries.FILE}")
            assert psutil_libraries.is_for(machine, data)


@pytest.mark.real
def test_psutil_of_the_other_machine() -> None:
    """The package index has it for aarch64 and x86_64, of the version that is here; it is kept with its sum."""
    for machine in pyz.MACHINES:
        data = psutil_libraries.find(machine, fetch=True)
        assert data is not None and psutil_libraries.is_for(machine, data)
        assert psutil_libraries.find(machine) == data
    assert pyz.machines(pyz.build(frozenset(pyz.MACHINES))) == list(pyz.MACHINES)
