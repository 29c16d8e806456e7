"""`envcheck provision` when the engine denies access, a name or mount is wrong, or an index fails in the container:
clear messages, the documented exit code, a correct journal, and the same command succeeds afterwards."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingUnixStreamServer

import pytest

from tests.installers.fault_parts import (
    check_message,
    check_recovery,
    check_untouched,
    read_reason,
    run_meanwhile,
    write_lean_recipe,
)
from tests.installers.images.engine_parts import DockerEngine
from tests.installers.provision_helpers import PackageIndex, serve_index, wait_until, write_wheel
from tests.installers.test_container_provision import ContainerCommand
from tests.tiers import thin_out

pytestmark = pytest.mark.real

SOMEBODY = "65534"
Door = Callable[[ContainerCommand], contextlib.AbstractContextManager[tuple[list[str], str]]]


@pytest.fixture
def index(tmp_path: Path) -> Iterator[PackageIndex]:
    write_wheel(tmp_path / "index", "first", "1.0")
    write_wheel(tmp_path / "index", "second", "2.1")
    with serve_index(tmp_path / "index") as served:
        yield served


@pytest.fixture
def box(
    engine: DockerEngine, python_image_here: str, index: PackageIndex, tmp_path: Path
) -> Iterator[ContainerCommand]:
    made = ContainerCommand(engine, python_image_here, index.base_url, tmp_path)
    yield made
    engine.run_docker("rm", "-f", made.name, check=False)
    made.restore_image(python_image_here)


@contextlib.contextmanager
def make_dead_socket(box: ContainerCommand) -> Iterator[tuple[list[str], str]]:
    """A socket left by a dead engine."""
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(box.folder / "s"))
    yield [], f"unix://{box.folder / 's'}"


@contextlib.contextmanager
def become_other_user(box: ContainerCommand) -> Iterator[tuple[list[str], str]]:
    """A user outside of the socket's group who may read all files, but not write to the socket."""
    who = ["setpriv", "--reuid", SOMEBODY, "--regid", SOMEBODY, "--clear-groups"]
    who += ["--securebits", "+no_setuid_fixup", "--inh-caps", "+dac_read_search", "--ambient-caps", "+dac_read_search"]
    if subprocess.run([*who, "true"], capture_output=True).returncode != 0:
        pytest.skip("this machine does not let root become another user that reads all files")
    os.chown(box.folder, int(SOMEBODY), int(SOMEBODY))
    yield who, box.engine.docker_host


def make_older_engine(version: str, api: str) -> Door:
    """The real engine with another version in its responses: a real one that old is not available."""

    @contextlib.contextmanager
    def door(box: ContainerCommand) -> Iterator[tuple[list[str], str]]:
        asked = ["curl", "-s", "--unix-socket", str(box.engine.socket_path)]

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, format: str, *args: object) -> None:
                """Log nothing."""

            def do_GET(self) -> None:
                said = subprocess.run([*asked, f"http://engine{self.path}"], capture_output=True).stdout
                if self.path.endswith("/info"):
                    said = json.dumps(json.loads(said) | {"ServerVersion": version}).encode()
                self.send_response(200)
                self.send_header("Api-Version", api)
                self.send_header("Content-Length", str(len(said)))
                self.end_headers()
                self.wfile.write(said)

        with ThreadingUnixStreamServer(str(box.folder / "s"), Handler) as server:
            threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
            yield [], f"unix://{box.folder / 's'}"
            server.shutdown()

    return door


@pytest.mark.parametrize(
    ("door", "words", "next_words"),
    thin_out(
        1,
        (
            (make_dead_socket, "the container engine is not running", "start the engine, or correct DOCKER_HOST"),
            (become_other_user, "this user has no access to the container engine", "usermod -aG docker"),
            (
                make_older_engine("20.10.9", "1.41"),
                "Docker 20.10.9 is too old: its seccomp profile",
                "upgrade to Docker 20.10.10",
            ),
            (make_older_engine("1.11.2", "1.23"), "the container engine is too old", "upgrade to Docker 20.10.10"),
        ),
    ),
    ids=("not running", "no permission", "seccomp", "API"),
)
def test_closed_door(box: ContainerCommand, door: Door, words: str, next_words: str) -> None:
    """Without a usable engine: exit code 1 with the reason, nothing is done; --dry-run still shows the plan."""
    write_lean_recipe(box)
    with door(box) as (who, url):
        env = {**box.child_variables, "DOCKER_HOST": url}
        done, shown = (
            subprocess.run(
                [*who, *box.make_argv(word)], cwd=box.folder, env=env, capture_output=True, text=True, timeout=60
            )
            for word in ("--yes", "--dry-run")
        )

    check_message(done, 1, words, next_words)
    check_untouched(box)
    assert (shown.returncode, "step 3" in shown.stdout, words in " ".join(shown.stdout.split())) == (1, True, True)
    assert box.run_command("--yes").returncode == 0


def test_mount_without_source(box: ContainerCommand) -> None:
    """A missing folder of the host that the container mounts is refused, and not created."""
    tools = box.folder / "tools"
    write_lean_recipe(box)
    tools.rmdir()
    done = box.run_command("--yes")

    check_message(done, 1, str(tools), "")
    check_untouched(box)
    assert not tools.exists()
    tools.mkdir()
    check_recovery(box)


def test_undo_leaves_a_strangers_container(box: ContainerCommand, python_image_here: str) -> None:
    """If our container was replaced by a foreign one of the same name, it is kept, and the rest is undone."""
    write_lean_recipe(box)
    assert box.run_command("--yes").returncode == 0
    box.engine.run_docker("rm", "-f", box.name)
    box.engine.run_docker("create", "--name", box.name, python_image_here, "true")
    back = box.run_command("--undo", "--yes")

    assert back.returncode == 0, back.stderr
    assert f"container {box.name}: kept" in back.stdout
    assert not box.notes_folder.exists()
    assert box.engine.run_docker("inspect", box.name, check=False).returncode == 0


def remove_package(folder: Path) -> None:
    shutil.rmtree(folder / "second")


def break_wheel(folder: Path) -> None:
    """Write a file that is no wheel, with a correct hash."""
    path = write_wheel(folder, "second", "2.1")
    path.write_bytes(path.read_bytes()[:100])
    (path.parent / "index.html").write_text(f'<a href="{path.name}">{path.name}</a>')


def change_wheel(folder: Path) -> None:
    """Change a wheel without changing its hash in the index."""
    path = folder / "second" / "second-2.1-py3-none-any.whl"
    path.write_bytes(path.read_bytes() + b"x")


def rename_for_other_platform(folder: Path) -> None:
    path = folder / "second" / "second-2.1-py3-none-any.whl"
    name = path.rename(path.with_name("second-2.1-cp36-cp36m-linux_x86_64.whl")).name
    (path.parent / "index.html").write_text(f'<a href="{name}">{name}</a>')


@pytest.mark.parametrize(
    ("fault", "words"),
    thin_out(
        1,
        (
            (remove_package, "the index has no version that satisfies second"),
            (rename_for_other_platform, "the index has no version that satisfies second"),
            (break_wheel, "a downloaded file is damaged"),
            (change_wheel, "the file for second has an unexpected hash"),
        ),
    ),
)
def test_index_that_fails(box: ContainerCommand, fault: Callable[[Path], None], words: str, tmp_path: Path) -> None:
    """What the index lacks or damages is exit code 4 before anything is installed; the container stays, and the next
    run only does what is missing."""
    fault(tmp_path / "index")
    done = box.run_command("--yes")
    names = [name for name, _ in (line.split("==") for line in box.run_inside("pip", "freeze", "--all").split())]
    shutil.rmtree(tmp_path / "index" / "second", ignore_errors=True)
    write_wheel(tmp_path / "index", "second", "2.1")
    count = len(box.list_events())
    check_message(done, 4, words)
    assert f"journal: {box.notes_folder}" in done.stderr
    assert box.list_events()[-1] == ("packages", "failed")
    assert words in read_reason(box)
    assert not {"first", "second"} & set(names)

    check_recovery(box)
    assert [step for step, event in box.list_events()[count:] if event == "done"] == ["packages", "proof"]


def test_what_was_done_before_it_failed(box: ContainerCommand, tmp_path: Path) -> None:
    """With --json, the document of a failed step has the plan and the steps done before."""
    remove_package(tmp_path / "index")
    done = box.run_command("--yes", "--json")
    said = json.loads(done.stdout)

    assert (done.returncode, said["result"], said["exit_code"]) == (4, "failed", 4)
    assert [step["name"] for step in said["steps"]] == ["container", "packages", "proof"]
    assert [each["step"] for each in said["performed"]] == ["container"]
    assert "for a container: in container.environment" in said["next"]


@pytest.mark.extended
def test_another_python_inside(box: ContainerCommand) -> None:
    """An image with an unsupported Python is refused once it runs, exit code 1, without a package in it."""
    recipe = box.folder / "recipes" / "boxed.toml"
    recipe.write_text(recipe.read_text().replace('python = ">=3.9"', 'python = "<3"'))
    done = box.run_command("--yes")

    check_message(done, 1, "recipe boxed requires Python <3; the container has", "docker image inspect")
    assert box.list_events()[-1] == ("container", "done")
    recipe.write_text(recipe.read_text().replace('python = "<3"', 'python = ">=3.9"'))
    check_recovery(box)


def test_interrupted_pip(box: ContainerCommand, index: PackageIndex) -> None:
    """Ctrl-C during a download: exit code 130, recorded, no pip left in the container; the next run succeeds."""
    index.mode = "slow"

    def stop(child: subprocess.Popen[str]) -> None:
        wait_until(lambda: child.poll() is not None or "pip" in box.engine.run_docker("top", box.name).stdout)
        child.send_signal(signal.SIGINT)

    done = run_meanwhile(box, ("packages", "begun"), stop)
    running = box.engine.run_docker("top", box.name).stdout
    index.mode = ""

    assert done.returncode == 130, done.stderr
    assert done.stderr.splitlines()[-1] == "envcheck: interrupted"
    assert box.list_events()[-1] == ("packages", "interrupted")
    assert "pip" not in running
    check_recovery(box)


@pytest.mark.extended
def test_container_that_ends_meanwhile(box: ContainerCommand, index: PackageIndex) -> None:
    """If the container is removed during pip, exit code 4 names that, not a failure of pip."""
    index.mode = "slow"

    def remove(child: subprocess.Popen[str]) -> None:
        wait_until(lambda: child.poll() is not None or "pip" in box.engine.run_docker("top", box.name).stdout)
        box.engine.run_docker("rm", "-f", box.name)

    done = run_meanwhile(box, ("packages", "begun"), remove)
    index.mode = ""

    check_message(done, 4, f"container {box.name} ", "run the same command again")
    assert "pip failed" not in done.stderr
    assert box.list_events()[-1] == ("packages", "failed")
    check_recovery(box)
