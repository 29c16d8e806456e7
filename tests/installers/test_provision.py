"""`envcheck provision` with a real index, pip and virtual environments, and tiny packages."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.installers.provision_helpers import (
    PackageIndex,
    ProvisionCommand,
    copy_home,
    make_provisioned,
    serve_index,
    stock_index,
    wait_until,
    write_recipe,
    write_wheel,
)
from tests.tiers import thin_out

pytestmark = pytest.mark.real


@pytest.fixture
def index(tmp_path: Path) -> Iterator[PackageIndex]:
    stock_index(tmp_path / "index")
    with serve_index(tmp_path / "index") as server:
        yield server


@pytest.fixture
def machine(tmp_path: Path, index: PackageIndex) -> ProvisionCommand:
    return ProvisionCommand(tmp_path, index)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_provisioned(tmp_path_factory.mktemp("made"))


@pytest.fixture
def ready(made: Path, machine: ProvisionCommand) -> ProvisionCommand:
    """A machine with `little` provisioned."""
    copy_home(made, machine)
    return machine


def read_current_step(machine: ProvisionCommand) -> str:
    try:
        return str(json.loads((machine.notes_folder / "state.json").read_text())["doing"])
    except (OSError, ValueError):
        return ""


def read_journal(machine: ProvisionCommand) -> list[tuple[str, str]]:
    lines = (machine.notes_folder / "journal.jsonl").read_text().splitlines()
    return [(entry["step"], entry["event"]) for entry in map(json.loads, lines)]


def list_processes(machine: ProvisionCommand) -> list[int]:
    """Return processes whose command names the machine's folder."""
    named = psutil.process_iter(["cmdline"])
    return [p.pid for p in named if any(str(machine.home) in part for part in p.info["cmdline"] or [])]


def test_dry_run_shows_and_changes_nothing(machine: ProvisionCommand, index: PackageIndex) -> None:
    """--dry-run shows each step, with -v also its reason and undo; it asks no index, and creates no file."""
    done, whole = machine.run_command("--dry-run"), machine.run_command("--dry-run", "-v")

    assert (done.returncode, whole.returncode) == (0, 0)
    assert "install alpha==1.0, beta<2" in done.stdout and "add -v" in done.stdout
    assert "reason: " not in done.stdout and "undo: " not in done.stdout
    assert "reason: not installed: alpha, beta" in whole.stdout and "undo: " in whole.stdout
    assert not machine.home.exists()
    assert index.asked == 0


def test_nobody_to_ask(machine: ProvisionCommand) -> None:
    """Without a terminal and --yes nothing is done, and the message names the option."""
    done = machine.run_command()

    assert done.returncode == 2
    assert "--yes" in done.stderr
    assert not machine.home.exists()


def test_performs_what_it_showed(machine: ProvisionCommand) -> None:
    """The environment has suitable versions although the index has newer ones; each step is in the journal."""
    done = machine.run_command("--yes")

    assert done.returncode == 0, done.stderr
    assert machine.read_versions() == "1.0 1.5"
    assert read_journal(machine) == [
        (step, event) for step in ("environment", "packages", "proof") for event in ("begun", "done")
    ]
    assert read_current_step(machine) == ""


def test_second_run_does_nothing(ready: ProvisionCommand, index: PackageIndex) -> None:
    """Satisfied requirements are shown; no index is asked, no file is changed."""
    before = (ready.notes_folder / "journal.jsonl").read_text(), (ready.notes_folder / "state.json").stat().st_mtime_ns
    done = ready.run_command("--yes")

    assert done.returncode == 0
    assert "ok           alpha 1.0" in done.stdout
    assert "nothing to do" in done.stdout
    assert index.asked == 0
    assert before == (
        (ready.notes_folder / "journal.jsonl").read_text(),
        (ready.notes_folder / "state.json").stat().st_mtime_ns,
    )


def test_json_is_one_document(ready: ProvisionCommand, machine: ProvisionCommand) -> None:
    """--json prints exactly one document on standard output, also after a failure."""
    said = json.loads(ready.run_command("--yes", "--json").stdout)
    write_recipe(machine.recipes, "gamma")
    failed = machine.run_command("--yes", "--json")

    assert (said["result"], said["steps"]) == ("ready", [])
    assert failed.returncode == 4
    assert json.loads(failed.stdout)["exit_code"] == 4


@pytest.mark.parametrize("step", thin_out(2, ("environment", "packages", "proof")))
def test_killed_at_any_step_is_repaired(step: str, made: Path, machine: ProvisionCommand, index: PackageIndex) -> None:
    """After SIGKILL during a step the next run repairs everything."""
    if step != "environment":
        copy_home(made, machine)
    write_recipe(machine.recipes, "alpha ==1.0", "beta <2", "paddlepaddle ==3.1.0")
    index.mode = "slow" if step == "packages" else ""
    first = machine.start_command("--yes", STANDIN="hang")
    wait_until(lambda: read_current_step(machine) == step and (step != "packages" or index.asked > 1))
    first.kill()
    first.wait()
    index.mode = ""

    second = machine.run_command("--yes")

    assert second.returncode == 0, second.stderr
    assert machine.read_versions() == "1.0 1.5"
    assert read_current_step(machine) == ""
    assert (("clear", "done") in read_journal(machine)) == (step != "proof")


def test_killed_while_clearing_is_repaired(ready: ProvisionCommand) -> None:
    """A folder whose removal was interrupted is emptied and recreated."""
    state = json.loads((ready.notes_folder / "state.json").read_text())
    (ready.notes_folder / "state.json").write_text(json.dumps({**state, "doing": "clear"}))
    (ready.environment_folder / "pyvenv.cfg").unlink()
    shutil.rmtree(ready.environment_folder / "bin")

    done = ready.run_command("--yes")

    assert done.returncode == 0, done.stderr
    assert ready.read_versions() == "1.0 1.5"


@pytest.mark.parametrize("number", thin_out(1, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)))
def test_interrupted(number: int, machine: ProvisionCommand, index: PackageIndex) -> None:
    """Ctrl-C, SIGTERM and a closed terminal end pip too, exit 130, and are in the journal."""
    index.mode = "slow"
    run = machine.start_command("--yes")
    wait_until(lambda: read_current_step(machine) == "packages" and index.asked > 1)
    run.send_signal(number)
    code = run.wait(300)

    assert code == 130
    assert list_processes(machine) == []
    assert read_journal(machine)[-1] == ("packages", "interrupted")


def test_two_at_once(machine: ProvisionCommand, index: PackageIndex) -> None:
    """A second run in the same environment reports the first, which is not disturbed."""
    index.mode = "slow"
    first = machine.start_command("--yes")
    wait_until(lambda: read_current_step(machine) == "packages")
    second = machine.run_command("--yes")
    index.mode = ""

    assert second.returncode == 1
    assert f"another envcheck process ({first.pid}) is working" in second.stderr
    assert first.wait(300) == 0
    assert machine.read_versions() == "1.0 1.5"


@pytest.mark.parametrize(
    ("package", "told"),
    thin_out(
        1,
        (
            ("gamma", "the index has no version that satisfies gamma"),
            ("alpha ==7", "the index has no version that satisfies alpha==7 (available: 1.0, 2.0)"),
            ("alpha ==2.0", "the packages have conflicting requirements"),
        ),
    ),
)
def test_index_without_it(package: str, told: str, ready: ProvisionCommand) -> None:
    """A package that the index lacks is one message with the journal; the environment is unchanged."""
    write_recipe(ready.recipes, package, "beta <2")
    done = ready.run_command("--yes")
    write_recipe(ready.recipes, "alpha ==1.0", "beta <2")
    back = ready.run_command("--yes")

    assert done.returncode == 4
    assert told in done.stderr
    assert "journal: " in done.stderr
    assert "Traceback" not in done.stderr
    assert ("packages", "failed") in read_journal(ready)
    assert back.returncode == 0
    assert "nothing to do" in back.stdout


@pytest.mark.parametrize(
    ("url", "told"),
    thin_out(
        1,
        (
            ("http://127.0.0.1:9", "the package index is unreachable"),
            ("https://index.invalid", "the name of the package index does not resolve"),
            ("http://index.invalid", "plain http"),
        ),
    ),
)
def test_no_index(url: str, told: str, ready: ProvisionCommand) -> None:
    """An index that is down or unknown: exit code 4 and what to check."""
    write_recipe(ready.recipes, "gamma")
    done = ready.run_command("--yes", PIP_INDEX_URL=url)

    assert done.returncode == 4
    assert told in done.stderr
    assert "PIP_" in done.stderr


def test_password_stays_out(ready: ProvisionCommand) -> None:
    """User and password of an index URL are neither shown nor logged."""
    write_recipe(ready.recipes, "gamma")
    done = ready.run_command("--yes", PIP_INDEX_URL="http://someone:hunter22@127.0.0.1:9")
    logs = "".join(path.read_text() for path in ready.notes_folder.glob("*.*"))

    assert done.returncode == 4
    assert "hunter22" not in done.stdout + done.stderr + logs


def test_download_cut_off(ready: ProvisionCommand, index: PackageIndex) -> None:
    """A server that closes midway is an interrupted download, and the next run completes it."""
    write_recipe(ready.recipes, "alpha ==2.0", "beta ==2.0")
    index.mode = "cut"
    first = ready.run_command("--yes")
    index.mode = ""
    second = ready.run_command("--yes")

    assert first.returncode == 4
    assert "the download was interrupted" in first.stderr
    assert second.returncode == 0, second.stderr
    assert ready.read_versions() == "2.0 2.0"


def test_damaged_wheel(ready: ProvisionCommand, tmp_path: Path) -> None:
    """A file with a wrong hash is refused, and nothing is changed."""
    write_recipe(ready.recipes, "beta ==2.0")
    path = tmp_path / "index" / "beta" / "beta-2.0-py3-none-any.whl"
    path.write_bytes(path.read_bytes()[:-40] + b"x" * 40)
    done = ready.run_command("--yes")

    assert done.returncode == 4
    assert "damaged" in done.stderr
    assert ready.read_versions() == "1.0 1.5"


def test_changed_behind_our_back(ready: ProvisionCommand) -> None:
    """A package changed by the user is changed back, and all is verified again."""
    python = str(ready.environment_folder / "bin" / "python")
    subprocess.run([python, "-m", "pip", "install", "-q", "beta==2.0"], env=ready.env, check=True)
    shown = ready.run_command("--dry-run", "-v")
    done = ready.run_command("--yes")

    assert "beta 2.0 is installed" in shown.stdout
    assert "clear" not in shown.stdout
    assert done.returncode == 0, done.stderr
    assert ready.read_versions() == "1.0 1.5"


def test_into_own_environment(made: Path, machine: ProvisionCommand, tmp_path: Path) -> None:
    """--into a user's environment adds packages, repairs an interruption without clearing it, and --undo leaves it."""
    mine = tmp_path / "mine"
    shutil.copytree(made / "home" / "environments" / "little", mine, symlinks=True)
    shutil.rmtree(mine / ".envcheck")
    site = next(mine.glob("lib/python3*/site-packages"))
    (mine / "precious").write_text("keep")
    (next(site.glob("beta-*.dist-info")) / "RECORD").unlink()
    (site / "beta" / "__init__.py").unlink()
    shutil.rmtree(next(site.glob("alpha-*.dist-info")))

    done = machine.run_command("--into", str(mine), "--yes")
    undone = machine.run_command("--into", str(mine), "--undo", "--yes")

    assert done.returncode == 0, done.stderr
    assert machine.read_versions(mine) == "1.0 1.5"
    assert (mine / "precious").read_text() == "keep"
    assert undone.returncode == 2
    assert "pip uninstall alpha" in undone.stderr


def test_into_what_is_not_ours(machine: ProvisionCommand, tmp_path: Path) -> None:
    """A folder with other files, and a file in place of a folder, are refused unchanged."""
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").write_text("cat")
    folder = machine.run_command("--into", str(tmp_path / "photos"), "--yes")
    file = machine.run_command("--into", str(tmp_path / "photos" / "cat.jpg" / "venv"), "--yes")

    assert (folder.returncode, file.returncode) == (2, 2)
    assert "is not a virtual environment" in folder.stderr
    assert "is a file" in file.stderr
    assert [p.name for p in (tmp_path / "photos").iterdir()] == ["cat.jpg"]


def test_undo(ready: ProvisionCommand) -> None:
    """--undo lists and removes the environment that envcheck created; a second time there is nothing to remove."""
    dry = ready.run_command("--undo", "--dry-run")
    still = ready.environment_folder.exists()
    done = ready.run_command("--undo", "--yes")
    again = ready.run_command("--undo", "--yes")

    assert (dry.returncode, done.returncode, again.returncode) == (0, 0, 0)
    assert still
    assert not ready.environment_folder.exists()
    assert "nothing to remove" in again.stdout


def test_undo_of_a_strangers_folder(machine: ProvisionCommand, tmp_path: Path) -> None:
    """A folder without envcheck's state file is never removed."""
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / ".envcheck").mkdir()
    (tmp_path / "photos" / ".envcheck" / "state.json").write_text('{"schema": 1, "made": "yes"}')
    done = machine.run_command("--into", str(tmp_path / "photos"), "--undo", "--yes")

    assert done.returncode == 2
    assert (tmp_path / "photos").exists()


@pytest.mark.parametrize(
    ("standin", "told"),
    thin_out(
        2,
        (
            ("lie", "returned wrong values: process 0: sums: expected"),
            ("hang", "did not finish within"),
            ("crash", "the device ran away"),
            ("version", "metadata lists version 3.1.0, the imported module 9.9.9"),
            ("float", "only 0-dimensional arrays"),
            ("port", "the port was in use in both attempts"),
        ),
    ),
)
def test_proof_that_lies(standin: str, told: str, ready: ProvisionCommand) -> None:
    """A paddle with wrong results, a hang, a crash or another version fails the verification; a good one passes."""
    write_recipe(ready.recipes, "paddlepaddle ==3.1.0", "numpy <2")
    bad = ready.run_command("--yes", STANDIN=standin, ENVCHECK_PROOF_SECONDS="3")
    good = ready.run_command("--yes")

    assert bad.returncode == 4
    assert told in bad.stderr
    assert list_processes(ready) == []
    assert good.returncode == 0, good.stderr
    assert "all-reduce correct in 2 processes" in good.stdout
    assert "install paddlepaddle" not in good.stdout


def test_unsuitable_python(machine: ProvisionCommand) -> None:
    """A recipe for another Python is refused before anything is created."""
    write_recipe(machine.recipes, "alpha", python="<3.5")
    done = machine.run_command("--yes")

    assert done.returncode == 1
    assert "recipe little requires Python <3.5" in done.stderr
    assert not machine.home.exists()


def test_an_image_wants_an_engine(machine: ProvisionCommand) -> None:
    """A recipe with an image but no engine: the plan with the obstacle, and nothing is done."""
    done = subprocess.run(
        [*machine.make_argv()[:4], "--device", "npu", "--model", "300b", "--method", "lora", "--yes", "--json"],
        env={**machine.env, "DOCKER_HOST": "unix:///nobody/listens"},
        capture_output=True, text=True, timeout=60, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    said = json.loads(done.stdout)

    assert done.returncode == 1
    assert said["result"] == "failed"
    assert [step["name"] for step in said["steps"]][:3] == ["image", "container", "packages"]
    assert [each for each in said["obstacles"] if "engine is not running" in each["why"]]
    assert said["performed"] == []


def test_library_that_the_system_lacks(machine: ProvisionCommand, index: PackageIndex, tmp_path: Path) -> None:
    """A missing system library is provided by a wheel, linked where the loader looks."""
    write_wheel(
        tmp_path / "index", "carrier", "1.0", {"carrier.libs/libnobody-1a2b.so.7": "a library", "carrier.py": ""}
    )
    more = (
        '[[libraries]]\nsource = "test"\nname = "libenvcheck-nobody-has.so.7"\npackage = "carrier"\n'
        'specifier = "==1.0"\npattern = "carrier.libs/libnobody-*.so*"\nlink = "alpha/libs/libnobody.so.7"\n'
    )
    write_recipe(machine.recipes, "alpha ==1.0", "beta <2", more=more)
    done = machine.run_command("--yes")
    link = next(machine.environment_folder.glob("lib/python3*/site-packages/alpha/libs/libnobody.so.7"))

    assert done.returncode == 0, done.stderr
    assert link.read_text() == "a library"
    assert "nothing to do" in machine.run_command("--yes").stdout
