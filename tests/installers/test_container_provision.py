"""`envcheck provision` into a container, by the command, with a real engine, registry and package index."""

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

from tests.installers.containers.container_helpers import render_recipe
from tests.installers.images.engine_parts import DockerEngine, LocalRegistry
from tests.installers.provision_helpers import serve_index, write_wheel
from tests.tiers import thin_out

pytestmark = pytest.mark.real

ROOT = Path(__file__).parents[2]
OPTIONS = """
shm_size = "128m"
mounts = [{{ source = "data", target = "/work" }}]
environment = {{ PIP_BREAK_SYSTEM_PACKAGES = "1" }}
[[packages]]
name = "first"
specifier = "==1.0"
index = "{index}"
[[packages]]
name = "second"
specifier = ">=2"
index = "{index}"
"""


class ContainerCommand:
    """A recipe in the test's folder, and the command."""

    def __init__(self, engine: DockerEngine, image: str, index: str, folder: Path) -> None:
        self.engine, self.folder = engine, folder
        self.name = f"envcheck-test-{folder.name}".replace("_", "-")[:60]
        (folder / "recipes").mkdir()
        verify, options = "import first, second; assert first.__version__ == '1.0'", OPTIONS.format(index=index)
        text = render_recipe("boxed", image, self.name, "/work", verify, options)
        (folder / "recipes" / "boxed.toml").write_text(text)

    def make_argv(self, *more: str) -> list[str]:
        command = [sys.executable, "-m", "envcheck", "provision", "--recipe", "boxed"]
        return [*command, "--recipes", str(self.folder / "recipes"), *more]

    @property
    def child_variables(self) -> dict[str, str]:
        own = {"ENVCHECK_HOME": str(self.folder / "home"), "PYTHONPATH": str(ROOT), "NO_COLOR": "1"}
        return {**self.engine.child_environment, **own}

    def run_command(self, *more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.make_argv(*more),
            cwd=self.folder,
            env=self.child_variables,
            capture_output=True,
            text=True,
            timeout=240,
        )

    @property
    def notes_folder(self) -> Path:
        return self.folder / "home" / "environments" / "boxed" / ".envcheck"

    def list_events(self) -> list[tuple[str, str]]:
        lines = (self.notes_folder / "journal.jsonl").read_text().splitlines()
        return [(e["step"], e["event"]) for e in map(json.loads, lines)]

    def remove_image(self, image: str) -> None:
        """Remove the image under all names: another test may have pulled it."""
        found = self.engine.run_docker("image", "inspect", "-f", "{{.Id}}", image, check=False).stdout.strip()
        if found:
            self.engine.run_docker("image", "rm", "--force", found)

    def restore_image(self, image: str) -> None:
        """Pull the image again for fixtures of the session."""
        if self.engine.run_docker("image", "inspect", image, check=False).returncode != 0:
            self.engine.run_docker("pull", "--quiet", image)

    def run_inside(self, *argv: str) -> str:
        return self.engine.run_docker("exec", self.name, *argv).stdout


@pytest.fixture
def box(engine: DockerEngine, python_image: str, tmp_path: Path) -> Iterator[ContainerCommand]:
    index = tmp_path / "index"
    write_wheel(index, "first", "1.0")
    write_wheel(index, "second", "2.1")
    with serve_index(index) as served:
        made = ContainerCommand(engine, python_image, served.base_url, tmp_path)
        yield made
        engine.run_docker("rm", "-f", made.name, check=False)
        made.restore_image(python_image)


def test_the_published_options_are_remembered(box: ContainerCommand) -> None:
    """The published options are used only with --recreate; later runs keep them, and --recreate alone removes them."""
    file = box.folder / "recipes" / "boxed.toml"
    file.write_text(file.read_text().replace('network = "host"', 'network = "host"\npid = "host"'))
    seen = []
    for words in ((), ("--as-published",), ("--as-published", "--recreate"), (), ("--recreate",)):
        done = box.run_command("--yes", *words)
        pid = box.engine.run_docker("inspect", "-f", "{{.HostConfig.PidMode}}", box.name).stdout.strip()
        seen.append((done.returncode, pid, "differs from the plan in pid" in done.stderr))

    assert seen == [(0, "", False), (1, "", True), (0, "host", False), (0, "host", False), (0, "", False)]


def test_from_nothing_to_proved_and_back(box: ContainerCommand, python_image: str) -> None:
    """The container is pulled, started, installed and verified; a second run does nothing; an undo leaves nothing."""
    box.remove_image(python_image)
    first = box.run_command("--yes")

    assert first.returncode == 0, first.stdout + first.stderr
    assert "second 2.1" in box.run_inside("python3", "-m", "pip", "list", "--format=freeze").replace("==", " ")
    assert [step for step, event in box.list_events() if event == "done"] == ["image", "container", "packages", "proof"]

    journal = (box.notes_folder / "journal.jsonl").read_bytes()
    started = box.engine.run_docker("inspect", "-f", "{{.Id}} {{.State.StartedAt}}", box.name).stdout
    second = box.run_command("--yes", "--json")  # half a second on a quiet machine: benchmarks/provision_again.py

    assert json.loads(second.stdout)["performed"] == []
    assert second.returncode == 0
    assert (box.notes_folder / "journal.jsonl").read_bytes() == journal
    assert box.engine.run_docker("inspect", "-f", "{{.Id}} {{.State.StartedAt}}", box.name).stdout == started

    back = box.run_command("--undo", "--yes")

    assert back.returncode == 0, back.stderr
    assert box.name not in box.engine.run_docker("ps", "-a", "--format", "{{.Names}}").stdout
    assert not (box.folder / "data").exists()
    assert not box.notes_folder.exists()


def test_dry_run_shows_all_and_does_nothing(box: ContainerCommand, python_image: str) -> None:
    """A dry run shows the whole plan with sizes, and creates neither image nor container nor folder."""
    box.remove_image(python_image)
    done = box.run_command("--dry-run")

    assert done.returncode == 0, done.stdout
    assert all(f"step {n}" in done.stdout for n in (1, 2, 3, 4))
    assert "to download" in done.stdout
    assert box.name not in box.engine.run_docker("ps", "-a", "--format", "{{.Names}}").stdout
    assert not (box.folder / "data").exists()


def test_an_image_that_was_there_stays(box: ContainerCommand, python_image_here: str) -> None:
    """An image pulled by another user is used, and still there after an undo."""
    assert box.run_command("--yes").returncode == 0
    assert box.run_command("--undo", "--yes").returncode == 0
    assert box.engine.run_docker("image", "inspect", python_image_here, check=False).returncode == 0


@pytest.mark.parametrize("step", thin_out(1, ("container", "image", "packages", "proof")))
def test_cut_at_each_step(box: ContainerCommand, step: str, python_image: str) -> None:
    """After SIGKILL during a step the next run comes to the same end."""
    box.remove_image(python_image)
    child = subprocess.Popen(
        box.make_argv("--yes"),
        cwd=box.folder,
        env=box.child_variables,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    until = time.monotonic() + 120
    while child.poll() is None and time.monotonic() < until:
        if (box.notes_folder / "journal.jsonl").exists() and (step, "begun") in box.list_events():
            break
        time.sleep(0.01)
    child.send_signal(signal.SIGKILL)
    child.wait()
    again = box.run_command("--yes")

    assert again.returncode == 0, again.stdout + again.stderr
    assert box.run_inside("python3", "-c", "import first, second; print(second.__version__)").strip() == "2.1"
    assert box.run_command("--undo", "--yes").returncode == 0


def test_a_strangers_container(box: ContainerCommand, python_image_here: str) -> None:
    """A foreign container of the same name is reported and left unchanged."""
    box.engine.run_docker("run", "-dit", "--name", box.name, python_image_here, "bash")
    done = box.run_command("--yes", "--recreate")

    assert done.returncode == 1, done.stdout
    assert "envcheck did not create" in done.stderr
    assert box.engine.run_docker("inspect", box.name, check=False).returncode == 0


def test_a_container_that_differs(box: ContainerCommand) -> None:
    """After a change of the recipe the differences are shown; with --recreate the container is recreated."""
    assert box.run_command("--yes").returncode == 0
    recipe = box.folder / "recipes" / "boxed.toml"
    recipe.write_text(recipe.read_text().replace("128m", "256m"))
    refused = box.run_command("--yes")
    made = box.run_command("--yes", "--recreate")

    assert refused.returncode == 1
    assert "shm_size" in refused.stderr
    assert made.returncode == 0, made.stderr
    assert box.engine.run_docker("inspect", "-f", "{{.HostConfig.ShmSize}}", box.name).stdout.strip() == str(256 << 20)


def test_two_at_once(box: ContainerCommand) -> None:
    """While one run holds the lock, a second one reports it, also from another home; nothing breaks."""
    child = subprocess.Popen(
        box.make_argv("--yes"),
        cwd=box.folder,
        env=box.child_variables,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    until, journal = time.monotonic() + 120, box.notes_folder / "journal.jsonl"
    while not (journal.exists() and '"event": "begun"' in journal.read_text()):  # the image may be there already
        assert child.poll() is None and time.monotonic() < until
        time.sleep(0.01)
    child.send_signal(signal.SIGSTOP)  # it holds its locks for as long as we want
    try:
        second = box.run_command("--yes")
        stranger = subprocess.run(
            box.make_argv("--yes"), cwd=box.folder,
            env={**box.child_variables, "ENVCHECK_HOME": str(box.folder / "other")},
            capture_output=True, text=True, timeout=120,
        )  # fmt: skip
    finally:
        child.send_signal(signal.SIGCONT)

    assert (second.returncode, f"another envcheck process ({child.pid})" in second.stderr) == (1, True), second.stderr
    assert stranger.returncode == 1, stranger.stderr
    assert f"another envcheck process is working in container {box.name}" in stranger.stderr
    assert child.wait(240) == 0


def test_interrupted(box: ContainerCommand) -> None:
    """Ctrl-C during installation: exit code 130, recorded in the journal, and nothing is left running in the
    container."""
    child = subprocess.Popen(
        box.make_argv("--yes"), cwd=box.folder, env=box.child_variables, stderr=subprocess.PIPE, text=True
    )
    until = time.monotonic() + 120
    while time.monotonic() < until:
        if (box.notes_folder / "journal.jsonl").exists() and ("packages", "begun") in box.list_events():
            break
        time.sleep(0.01)
    os.kill(child.pid, signal.SIGINT)
    _, told = child.communicate(timeout=60)

    assert child.returncode == 130, told
    assert ("packages", "interrupted") in box.list_events()
    assert "pip" not in box.engine.run_docker("top", box.name).stdout


def test_no_engine(box: ContainerCommand) -> None:
    """Without an engine the plan is shown with the obstacle; exit code 1."""
    gone = {**box.child_variables, "DOCKER_HOST": f"unix://{box.folder}/nobody"}
    done = subprocess.run(
        box.make_argv("--dry-run"), cwd=box.folder, env=gone, capture_output=True, text=True, timeout=60
    )

    assert done.returncode == 1
    assert "blocked      the container engine is not running" in done.stdout
    assert "step 4" in done.stdout


def test_another_registry_first(box: ContainerCommand, registry: LocalRegistry, python_image: str) -> None:
    """--registry is tried before the recipe's registry, which is used if the first does not have the image."""
    box.remove_image(python_image)
    done = box.run_command("--dry-run", "--registry", f"{registry.address}/nobody")

    assert done.returncode == 0, done.stdout
    assert f"pull {registry.address}/envcheck/python" in done.stdout


@pytest.mark.extended
def test_a_restarted_container_is_proved_again(box: ContainerCommand) -> None:
    """A stopped container is started and verified again."""
    assert box.run_command("--yes").returncode == 0
    box.engine.run_docker("stop", "-t", "0", box.name)
    again = json.loads(box.run_command("--yes", "--json").stdout)

    assert [deed["step"] for deed in again["performed"]] == ["container", "proof"]


@pytest.mark.extended
def test_from_another_folder(box: ContainerCommand) -> None:
    """A second run from another folder finds the container unchanged: its mounts stay."""
    assert box.run_command("--yes").returncode == 0
    elsewhere = box.folder / "elsewhere"
    elsewhere.mkdir()
    done = subprocess.run(
        box.make_argv("--yes", "--json"),
        cwd=elsewhere,
        env=box.child_variables,
        capture_output=True,
        text=True,
        timeout=240,
    )

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["performed"] == []
