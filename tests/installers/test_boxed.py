"""`envcheck provision` into a container, by the command, on a real engine with a real registry and package index."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.installers.images.engine_parts import Engine, Registry
from tests.installers.provision_helpers import serving, wheel
from tests.tiers import thin_out

pytestmark = pytest.mark.real

ROOT = Path(__file__).parents[2]
RECIPE = """
name = "boxed"
title = "A small recipe in a container"
device = "cpu"
framework = "envcheck"
models = ["boxed"]
source = "a test"
interpreter = "python3"
python = ">=3.9"
workdir = "/work"
verify = [["{{python}}", "-c", "import first, second; assert first.__version__ == '1.0'"]]
[hardware]
product = "any"
source = "a test"
[image.references]
x86_64 = "{image}"
[container]
name = "{name}"
workdir = "/work"
network = "host"
shm_size = "128m"
mounts = [{{ source = "data", target = "/work" }}]
environment = {{ PIP_BREAK_SYSTEM_PACKAGES = "1" }}
source = "a test"
[[packages]]
name = "first"
specifier = "==1.0"
index = "{index}"
[[packages]]
name = "second"
specifier = ">=2"
index = "{index}"
[[jobs]]
method = "lora"
title = "none"
source = "a test"
launcher = ["true"]
"""


class Box:
    """A recipe in a folder of the test's own, and the command."""

    def __init__(self, engine: Engine, image: str, index: str, folder: Path) -> None:
        self.engine, self.folder = engine, folder
        self.name = f"envcheck-test-{folder.name}".replace("_", "-")[:60]
        (folder / "recipes").mkdir()
        text = RECIPE.format(image=image, name=self.name, index=index)
        (folder / "recipes" / "boxed.toml").write_text(text)

    def argv(self, *more: str) -> list[str]:
        command = [sys.executable, "-m", "envcheck", "provision", "--recipe", "boxed"]
        return [*command, "--recipes", str(self.folder / "recipes"), *more]

    @property
    def variables(self) -> dict[str, str]:
        own = {"ENVCHECK_HOME": str(self.folder / "home"), "PYTHONPATH": str(ROOT), "NO_COLOR": "1"}
        return {**self.engine.environment, **own}

    def run(self, *more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.argv(*more), cwd=self.folder, env=self.variables, capture_output=True, text=True, timeout=240
        )

    @property
    def notes(self) -> Path:
        return self.folder / "home" / "environments" / "boxed" / ".envcheck"

    def events(self) -> list[tuple[str, str]]:
        lines = (self.notes / "journal.jsonl").read_text().splitlines()
        return [(e["step"], e["event"]) for e in map(json.loads, lines)]

    def forget(self, image: str) -> None:
        """The engine has it no more, under whatever name: another test may have pulled it."""
        found = self.engine.docker("image", "inspect", "-f", "{{.Id}}", image, check=False).stdout.strip()
        if found:
            self.engine.docker("image", "rm", "--force", found)

    def remember(self, image: str) -> None:
        """The session's fixtures count on it."""
        if self.engine.docker("image", "inspect", image, check=False).returncode != 0:
            self.engine.docker("pull", "--quiet", image)

    def inside(self, *argv: str) -> str:
        return self.engine.docker("exec", self.name, *argv).stdout


@pytest.fixture
def box(engine: Engine, python_image: str, tmp_path: Path) -> Iterator[Box]:
    index = tmp_path / "index"
    wheel(index, "first", "1.0")
    wheel(index, "second", "2.1")
    with serving(index) as served:
        made = Box(engine, python_image, served.url, tmp_path)
        yield made
        engine.docker("rm", "-f", made.name, check=False)
        made.remember(python_image)


def test_the_published_options_are_remembered(box: Box) -> None:
    """The derived container is made anew with the document's options only when --recreate says so too; later runs keep
    them, and --recreate alone goes back."""
    file = box.folder / "recipes" / "boxed.toml"
    file.write_text(file.read_text().replace('network = "host"', 'network = "host"\npid = "host"'))
    seen = []
    for words in ((), ("--as-published",), ("--as-published", "--recreate"), (), ("--recreate",)):
        done = box.run("--yes", *words)
        pid = box.engine.docker("inspect", "-f", "{{.HostConfig.PidMode}}", box.name).stdout.strip()
        seen.append((done.returncode, pid, "differs from the plan in pid" in done.stderr))

    assert seen == [(0, "", False), (1, "", True), (0, "host", False), (0, "host", False), (0, "", False)]


def test_from_nothing_to_proved_and_back(box: Box, python_image: str) -> None:
    """Pulled, started, installed, proved; a second run does nothing; undone, nothing of it is left."""
    box.forget(python_image)
    first = box.run("--yes")

    assert first.returncode == 0, first.stdout + first.stderr
    assert "second 2.1" in box.inside("python3", "-m", "pip", "list", "--format=freeze").replace("==", " ")
    assert [step for step, event in box.events() if event == "done"] == ["image", "container", "packages", "proof"]

    journal = (box.notes / "journal.jsonl").read_bytes()
    started = box.engine.docker("inspect", "-f", "{{.Id}} {{.State.StartedAt}}", box.name).stdout
    second = box.run("--yes", "--json")  # half a second on a quiet machine: benchmarks/provision_again.py

    assert json.loads(second.stdout)["performed"] == []
    assert second.returncode == 0
    assert (box.notes / "journal.jsonl").read_bytes() == journal
    assert box.engine.docker("inspect", "-f", "{{.Id}} {{.State.StartedAt}}", box.name).stdout == started

    back = box.run("--undo", "--yes")

    assert back.returncode == 0, back.stderr
    assert box.name not in box.engine.docker("ps", "-a", "--format", "{{.Names}}").stdout
    assert not (box.folder / "data").exists()
    assert not box.notes.exists()


def test_dry_run_shows_all_and_does_nothing(box: Box, python_image: str) -> None:
    """The whole plan with its sizes, and neither image nor container nor folder afterwards."""
    box.forget(python_image)
    done = box.run("--dry-run")

    assert done.returncode == 0, done.stdout
    assert all(f"step {n}" in done.stdout for n in (1, 2, 3, 4))
    assert "to fetch" in done.stdout
    assert box.name not in box.engine.docker("ps", "-a", "--format", "{{.Names}}").stdout
    assert not (box.folder / "data").exists()


def test_an_image_that_was_there_stays(box: Box, python_image_here: str) -> None:
    """What somebody else pulled is used, and is there after an undo."""
    assert box.run("--yes").returncode == 0
    assert box.run("--undo", "--yes").returncode == 0
    assert box.engine.docker("image", "inspect", python_image_here, check=False).returncode == 0


@pytest.mark.parametrize("step", thin_out(1, ("container", "image", "packages", "proof")))
def test_cut_at_each_step(box: Box, step: str, python_image: str) -> None:
    """SIGKILL while a step is performed; the next run comes to the same end."""
    box.forget(python_image)
    child = subprocess.Popen(
        box.argv("--yes"), cwd=box.folder, env=box.variables, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    until = time.monotonic() + 120
    while child.poll() is None and time.monotonic() < until:
        if (box.notes / "journal.jsonl").exists() and (step, "begun") in box.events():
            break
        time.sleep(0.01)
    child.send_signal(signal.SIGKILL)
    child.wait()
    again = box.run("--yes")

    assert again.returncode == 0, again.stdout + again.stderr
    assert box.inside("python3", "-c", "import first, second; print(second.__version__)").strip() == "2.1"
    assert box.run("--undo", "--yes").returncode == 0


def test_a_strangers_container(box: Box, python_image_here: str) -> None:
    """A container of that name that envcheck did not make is left alone, and said so."""
    box.engine.docker("run", "-dit", "--name", box.name, python_image_here, "bash")
    done = box.run("--yes", "--recreate")

    assert done.returncode == 1, done.stdout
    assert "envcheck did not make" in done.stderr
    assert box.engine.docker("inspect", box.name, check=False).returncode == 0


def test_a_container_that_differs(box: Box) -> None:
    """The recipe changed: what differs is shown; with --recreate the container is made anew."""
    assert box.run("--yes").returncode == 0
    recipe = box.folder / "recipes" / "boxed.toml"
    recipe.write_text(recipe.read_text().replace("128m", "256m"))
    refused = box.run("--yes")
    made = box.run("--yes", "--recreate")

    assert refused.returncode == 1
    assert "shm_size" in refused.stderr
    assert made.returncode == 0, made.stderr
    assert box.engine.docker("inspect", "-f", "{{.HostConfig.ShmSize}}", box.name).stdout.strip() == str(256 << 20)


def test_two_at_once(box: Box) -> None:
    """While one run holds the lock a second is told who works there, from another home as well; nothing is broken."""
    child = subprocess.Popen(
        box.argv("--yes"), cwd=box.folder, env=box.variables, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    until, journal = time.monotonic() + 120, box.notes / "journal.jsonl"
    while not (journal.exists() and '"event": "begun"' in journal.read_text()):  # the image may be there already
        assert child.poll() is None and time.monotonic() < until
        time.sleep(0.01)
    child.send_signal(signal.SIGSTOP)  # it holds its locks for as long as we want
    try:
        second = box.run("--yes")
        stranger = subprocess.run(
            box.argv("--yes"), cwd=box.folder, env={**box.variables, "ENVCHECK_HOME": str(box.folder / "other")},
            capture_output=True, text=True, timeout=120,
        )  # fmt: skip
    finally:
        child.send_signal(signal.SIGCONT)

    assert (second.returncode, f"another envcheck (process {child.pid})" in second.stderr) == (1, True), second.stderr
    assert stranger.returncode == 1, stranger.stderr
    assert f"another envcheck is working in the container {box.name}" in stranger.stderr
    assert child.wait(240) == 0


def test_interrupted(box: Box) -> None:
    """Ctrl-C while packages come: exit 130, the journal says so, nothing runs on in the container."""
    child = subprocess.Popen(box.argv("--yes"), cwd=box.folder, env=box.variables, stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + 120
    while time.monotonic() < until:
        if (box.notes / "journal.jsonl").exists() and ("packages", "begun") in box.events():
            break
        time.sleep(0.01)
    os.kill(child.pid, signal.SIGINT)
    _, told = child.communicate(timeout=60)

    assert child.returncode == 130, told
    assert ("packages", "interrupted") in box.events()
    assert "pip" not in box.engine.docker("top", box.name).stdout


def test_no_engine(box: Box) -> None:
    """Without an engine the plan is shown, with what is in the way; exit 1."""
    gone = {**box.variables, "DOCKER_HOST": f"unix://{box.folder}/nobody"}
    done = subprocess.run(box.argv("--dry-run"), cwd=box.folder, env=gone, capture_output=True, text=True, timeout=60)

    assert done.returncode == 1
    assert "in the way   the container engine is not running" in done.stdout
    assert "step 4" in done.stdout


def test_another_registry_first(box: Box, registry: Registry, python_image: str) -> None:
    """--registry is tried before the recipe's own; where it does not have the image, the recipe's own is."""
    box.forget(python_image)
    done = box.run("--dry-run", "--registry", f"{registry.address}/nobody")

    assert done.returncode == 0, done.stdout
    assert f"pull {registry.address}/envcheck/python" in done.stdout


def test_a_restarted_container_is_proved_again(box: Box) -> None:
    """What was stopped is started, and not believed before it was tried."""
    assert box.run("--yes").returncode == 0
    box.engine.docker("stop", "-t", "0", box.name)
    again = json.loads(box.run("--yes", "--json").stdout)

    assert [deed["step"] for deed in again["performed"]] == ["container", "proof"]


def test_from_another_folder(box: Box) -> None:
    """A second run from elsewhere finds the container as it is: its mounts stay where it was started."""
    assert box.run("--yes").returncode == 0
    elsewhere = box.folder / "elsewhere"
    elsewhere.mkdir()
    done = subprocess.run(
        box.argv("--yes", "--json"), cwd=elsewhere, env=box.variables, capture_output=True, text=True, timeout=240
    )

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["performed"] == []
