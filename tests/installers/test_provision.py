"""envcheck provision against a real index, a real pip and real virtual environments; the packages are tiny."""

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
    Index,
    Machine,
    copied,
    provisioned,
    recipe_file,
    serving,
    stock,
    until,
    wheel,
)
from tests.tiers import thin_out

pytestmark = pytest.mark.real


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    stock(tmp_path / "index")
    with serving(tmp_path / "index") as server:
        yield server


@pytest.fixture
def machine(tmp_path: Path, index: Index) -> Machine:
    return Machine(tmp_path, index)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return provisioned(tmp_path_factory.mktemp("made"))


@pytest.fixture
def ready(made: Path, machine: Machine) -> Machine:
    """A machine on which `little` is ready."""
    copied(made, machine)
    return machine


def doing(machine: Machine) -> str:
    try:
        return str(json.loads((machine.own / "state.json").read_text())["doing"])
    except (OSError, ValueError):
        return ""


def journal(machine: Machine) -> list[tuple[str, str]]:
    lines = (machine.own / "journal.jsonl").read_text().splitlines()
    return [(entry["step"], entry["event"]) for entry in map(json.loads, lines)]


def alive(machine: Machine) -> list[int]:
    """Processes whose command names the machine's folder."""
    named = psutil.process_iter(["cmdline"])
    return [p.pid for p in named if any(str(machine.home) in part for part in p.info["cmdline"] or [])]


def test_dry_run_shows_and_changes_nothing(machine: Machine, index: Index) -> None:
    """--dry-run tells each step with its reason, asks no index, and leaves no file."""
    done = machine.run("--dry-run")

    assert done.returncode == 0
    assert "install alpha==1.0, beta<2" in done.stdout
    assert "why: alpha is not there" in done.stdout
    assert not machine.home.exists()
    assert index.asked == 0


def test_nobody_to_ask(machine: Machine) -> None:
    """Without a terminal and without --yes nothing is done, and the message says what to add."""
    done = machine.run()

    assert done.returncode == 2
    assert "--yes" in done.stderr
    assert not machine.home.exists()


def test_performs_what_it_showed(machine: Machine) -> None:
    """The environment holds versions that fit, although the index has newer ones; each step stands in the journal."""
    done = machine.run("--yes")

    assert done.returncode == 0, done.stderr
    assert machine.versions() == "1.0 1.5"
    assert journal(machine) == [
        (step, event) for step in ("environment", "packages", "proof") for event in ("begun", "done")
    ]
    assert doing(machine) == ""


def test_second_run_does_nothing(ready: Machine, index: Index) -> None:
    """What is so is said; no index is asked, no file is touched."""
    before = (ready.own / "journal.jsonl").read_text(), (ready.own / "state.json").stat().st_mtime_ns
    done = ready.run("--yes")

    assert done.returncode == 0
    assert "already so   alpha 1.0" in done.stdout
    assert "nothing to do" in done.stdout
    assert index.asked == 0
    assert before == ((ready.own / "journal.jsonl").read_text(), (ready.own / "state.json").stat().st_mtime_ns)


def test_json_is_one_document(ready: Machine, machine: Machine) -> None:
    """--json prints one document and nothing else on standard output, in failure as well."""
    said = json.loads(ready.run("--yes", "--json").stdout)
    recipe_file(machine.recipes, "gamma")
    failed = machine.run("--yes", "--json")

    assert (said["result"], said["steps"]) == ("ready", [])
    assert failed.returncode == 4
    assert json.loads(failed.stdout)["exit_code"] == 4


@pytest.mark.parametrize("step", thin_out(2, ("environment", "packages", "proof")))
def test_killed_at_any_step_is_repaired(step: str, made: Path, machine: Machine, index: Index) -> None:
    """After SIGKILL in the middle of a step the next run makes all of it good."""
    if step != "environment":
        copied(made, machine)
    recipe_file(machine.recipes, "alpha ==1.0", "beta <2", "paddlepaddle ==3.1.0")
    index.mode = "slow" if step == "packages" else ""
    first = machine.start("--yes", STANDIN="hang")
    until(lambda: doing(machine) == step and (step != "packages" or index.asked > 1))
    first.kill()
    first.wait()
    index.mode = ""

    second = machine.run("--yes")

    assert second.returncode == 0, second.stderr
    assert machine.versions() == "1.0 1.5"
    assert doing(machine) == ""
    assert (("clear", "done") in journal(machine)) == (step != "proof")


def test_killed_while_clearing_is_repaired(ready: Machine) -> None:
    """A folder of ours that was cut off while being emptied is emptied to the end, and made anew."""
    state = json.loads((ready.own / "state.json").read_text())
    (ready.own / "state.json").write_text(json.dumps({**state, "doing": "clear"}))
    (ready.folder / "pyvenv.cfg").unlink()
    shutil.rmtree(ready.folder / "bin")

    done = ready.run("--yes")

    assert done.returncode == 0, done.stderr
    assert ready.versions() == "1.0 1.5"


@pytest.mark.parametrize("number", thin_out(1, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)))
def test_interrupted(number: int, machine: Machine, index: Index) -> None:
    """Ctrl-C, SIGTERM and a closed terminal end pip as well, exit 130, and stand in the journal."""
    index.mode = "slow"
    run = machine.start("--yes")
    until(lambda: doing(machine) == "packages" and index.asked > 1)
    run.send_signal(number)
    code = run.wait(300)

    assert code == 130
    assert alive(machine) == []
    assert journal(machine)[-1] == ("packages", "interrupted")


def test_two_at_once(machine: Machine, index: Index) -> None:
    """The second run in one environment is told who is at work, and the first is not disturbed."""
    index.mode = "slow"
    first = machine.start("--yes")
    until(lambda: doing(machine) == "packages")
    second = machine.run("--yes")
    index.mode = ""

    assert second.returncode == 1
    assert f"another envcheck (process {first.pid}) is working" in second.stderr
    assert first.wait(300) == 0
    assert machine.versions() == "1.0 1.5"


@pytest.mark.parametrize(
    ("package", "told"),
    thin_out(
        1,
        (
            ("gamma", "the index has nothing that fits gamma"),
            ("alpha ==7", "the index has nothing that fits alpha==7 (it has 1.0, 2.0)"),
            ("alpha ==2.0", "the packages contradict each other"),
        ),
    ),
)
def test_index_without_it(package: str, told: str, ready: Machine) -> None:
    """What the index cannot give is said in a sentence, with the journal; the environment is not spoiled by it."""
    recipe_file(ready.recipes, package, "beta <2")
    done = ready.run("--yes")
    recipe_file(ready.recipes, "alpha ==1.0", "beta <2")
    back = ready.run("--yes")

    assert done.returncode == 4
    assert told in done.stderr
    assert "journal: " in done.stderr
    assert "Traceback" not in done.stderr
    assert ("packages", "failed") in journal(ready)
    assert back.returncode == 0
    assert "nothing to do" in back.stdout


@pytest.mark.parametrize(
    ("url", "told"),
    thin_out(
        1,
        (
            ("http://127.0.0.1:9", "the index cannot be reached"),
            ("https://index.invalid", "the index's name does not resolve"),
            ("http://index.invalid", "plain http"),
        ),
    ),
)
def test_no_index(url: str, told: str, ready: Machine) -> None:
    """An index that is down, or that has no address here: exit 4 and where to look."""
    recipe_file(ready.recipes, "gamma")
    done = ready.run("--yes", PIP_INDEX_URL=url)

    assert done.returncode == 4
    assert told in done.stderr
    assert "PIP_" in done.stderr


def test_password_stays_out(ready: Machine) -> None:
    """The user and password of an index's address reach neither the screen nor a log."""
    recipe_file(ready.recipes, "gamma")
    done = ready.run("--yes", PIP_INDEX_URL="http://someone:hunter22@127.0.0.1:9")
    logs = "".join(path.read_text() for path in ready.own.glob("*.*"))

    assert done.returncode == 4
    assert "hunter22" not in done.stdout + done.stderr + logs


def test_download_cut_off(ready: Machine, index: Index) -> None:
    """A server that closes midway is an interrupted download, and the next run gets it."""
    recipe_file(ready.recipes, "alpha ==2.0", "beta ==2.0")
    index.mode = "cut"
    first = ready.run("--yes")
    index.mode = ""
    second = ready.run("--yes")

    assert first.returncode == 4
    assert "the download was cut off" in first.stderr
    assert second.returncode == 0, second.stderr
    assert ready.versions() == "2.0 2.0"


def test_damaged_wheel(ready: Machine, tmp_path: Path) -> None:
    """A file that is not what the index announced is refused, and nothing is changed."""
    recipe_file(ready.recipes, "beta ==2.0")
    path = tmp_path / "index" / "beta" / "beta-2.0-py3-none-any.whl"
    path.write_bytes(path.read_bytes()[:-40] + b"x" * 40)
    done = ready.run("--yes")

    assert done.returncode == 4
    assert "damaged" in done.stderr
    assert ready.versions() == "1.0 1.5"


def test_changed_behind_our_back(ready: Machine) -> None:
    """A package that somebody moved to another version is moved back, and all is proved anew."""
    python = str(ready.folder / "bin" / "python")
    subprocess.run([python, "-m", "pip", "install", "-q", "beta==2.0"], env=ready.env, check=True)
    shown = ready.run("--dry-run")
    done = ready.run("--yes")

    assert "beta there is 2.0" in shown.stdout
    assert "clear" not in shown.stdout
    assert done.returncode == 0, done.stderr
    assert ready.versions() == "1.0 1.5"


def test_into_own_environment(made: Path, machine: Machine, tmp_path: Path) -> None:
    """--into a user's environment adds packages, repairs a cut there without clearing it, and --undo leaves it."""
    mine = tmp_path / "mine"
    shutil.copytree(made / "home" / "environments" / "little", mine, symlinks=True)
    shutil.rmtree(mine / ".envcheck")
    site = next(mine.glob("lib/python3*/site-packages"))
    (mine / "precious").write_text("keep")
    (next(site.glob("beta-*.dist-info")) / "RECORD").unlink()
    (site / "beta" / "__init__.py").unlink()
    shutil.rmtree(next(site.glob("alpha-*.dist-info")))

    done = machine.run("--into", str(mine), "--yes")
    undone = machine.run("--into", str(mine), "--undo", "--yes")

    assert done.returncode == 0, done.stderr
    assert machine.versions(mine) == "1.0 1.5"
    assert (mine / "precious").read_text() == "keep"
    assert undone.returncode == 2
    assert "pip uninstall alpha" in undone.stderr


def test_into_what_is_not_ours(machine: Machine, tmp_path: Path) -> None:
    """A folder with other things in it, and a file in the way, are refused untouched."""
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").write_text("cat")
    folder = machine.run("--into", str(tmp_path / "photos"), "--yes")
    file = machine.run("--into", str(tmp_path / "photos" / "cat.jpg" / "venv"), "--yes")

    assert (folder.returncode, file.returncode) == (2, 2)
    assert "is no virtual environment" in folder.stderr
    assert "is a file" in file.stderr
    assert [p.name for p in (tmp_path / "photos").iterdir()] == ["cat.jpg"]


def test_undo(ready: Machine) -> None:
    """--undo shows and removes the environment that envcheck made; a second time there is nothing to remove."""
    dry = ready.run("--undo", "--dry-run")
    still = ready.folder.exists()
    done = ready.run("--undo", "--yes")
    again = ready.run("--undo", "--yes")

    assert (dry.returncode, done.returncode, again.returncode) == (0, 0, 0)
    assert still
    assert not ready.folder.exists()
    assert "nothing to remove" in again.stdout


def test_undo_of_a_strangers_folder(machine: Machine, tmp_path: Path) -> None:
    """A folder without our mark is not removed, whatever it holds."""
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / ".envcheck").mkdir()
    (tmp_path / "photos" / ".envcheck" / "state.json").write_text('{"schema": 1, "made": "yes"}')
    done = machine.run("--into", str(tmp_path / "photos"), "--undo", "--yes")

    assert done.returncode == 2
    assert (tmp_path / "photos").exists()


@pytest.mark.parametrize(
    ("standin", "told"),
    thin_out(
        2,
        (
            ("lie", "gave wrong values: process 0 says sums"),
            ("hang", "did not end in"),
            ("crash", "the device ran away"),
            ("version", "announces version 3.1.0, imports as 9.9.9"),
            ("float", "only 0-dimensional arrays"),
            ("port", "a port was in use, twice"),
        ),
    ),
)
def test_proof_that_lies(standin: str, told: str, ready: Machine) -> None:
    """A paddle that installs well and computes wrong, hangs, fails or is another does not pass; a good one does."""
    recipe_file(ready.recipes, "paddlepaddle ==3.1.0", "numpy <2")
    bad = ready.run("--yes", STANDIN=standin, ENVCHECK_PROOF_SECONDS="3")
    good = ready.run("--yes")

    assert bad.returncode == 4
    assert told in bad.stderr
    assert alive(ready) == []
    assert good.returncode == 0, good.stderr
    assert "two processes added up to the right values" in good.stdout
    assert "install" not in good.stdout


def test_unsuitable_python(machine: Machine) -> None:
    """A recipe for another Python is refused before anything is made."""
    recipe_file(machine.recipes, "alpha", python="<3.5")
    done = machine.run("--yes")

    assert done.returncode == 1
    assert "is not one that little takes (<3.5)" in done.stderr
    assert not machine.home.exists()


def test_an_image_wants_an_engine(machine: Machine) -> None:
    """A recipe with an image, where no engine runs: the plan, what is in the way, and nothing done."""
    done = subprocess.run(
        [*machine.argv()[:4], "--model", "300b", "--method", "lora", "--yes", "--json"],
        env={**machine.env, "DOCKER_HOST": "unix:///nobody/listens"},
        capture_output=True, text=True, timeout=60, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    said = json.loads(done.stdout)

    assert done.returncode == 1
    assert said["result"] == "failed"
    assert [step["name"] for step in said["steps"]][:3] == ["image", "container", "packages"]
    assert [each for each in said["obstacles"] if "engine is not running" in each["why"]]
    assert said["performed"] == []


def test_library_that_the_system_lacks(machine: Machine, index: Index, tmp_path: Path) -> None:
    """A library that no package of the system brings comes out of a wheel, linked where the loader will look."""
    wheel(tmp_path / "index", "carrier", "1.0", {"carrier.libs/libnobody-1a2b.so.7": "a library", "carrier.py": ""})
    more = (
        '[[libraries]]\nsource = "test"\nname = "libenvcheck-nobody-has.so.7"\npackage = "carrier"\n'
        'specifier = "==1.0"\npattern = "carrier.libs/libnobody-*.so*"\nlink = "alpha/libs/libnobody.so.7"\n'
    )
    recipe_file(machine.recipes, "alpha ==1.0", "beta <2", more=more)
    done = machine.run("--yes")
    link = next(machine.folder.glob("lib/python3*/site-packages/alpha/libs/libnobody.so.7"))

    assert done.returncode == 0, done.stderr
    assert link.read_text() == "a library"
    assert "nothing to do" in machine.run("--yes").stdout
