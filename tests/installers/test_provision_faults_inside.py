"""`envcheck provision`, the command, when the engine keeps us out, a name or a mount is wrong, or an index fails inside
the container: clear words, the documented exit code, a true journal, and the same command again comes to the end."""

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

from tests.installers.fault_parts import clear, good, lean, meanwhile, untouched, why
from tests.installers.images.engine_parts import Engine
from tests.installers.provision_helpers import Index, serving, until, wheel
from tests.installers.test_boxed import Box
from tests.tiers import thin_out

pytestmark = pytest.mark.real

SOMEBODY = "65534"
Door = Callable[[Box], contextlib.AbstractContextManager[tuple[list[str], str]]]


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    wheel(tmp_path / "index", "first", "1.0")
    wheel(tmp_path / "index", "second", "2.1")
    with serving(tmp_path / "index") as served:
        yield served


@pytest.fixture
def box(engine: Engine, python_image_here: str, index: Index, tmp_path: Path) -> Iterator[Box]:
    made = Box(engine, python_image_here, index.url, tmp_path)
    yield made
    engine.docker("rm", "-f", made.name, check=False)
    made.remember(python_image_here)


@contextlib.contextmanager
def not_running(box: Box) -> Iterator[tuple[list[str], str]]:
    """A socket that a dead engine left."""
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(box.folder / "s"))
    yield [], f"unix://{box.folder / 's'}"


@contextlib.contextmanager
def not_permitted(box: Box) -> Iterator[tuple[list[str], str]]:
    """Another user, outside of the socket's group.  Who may read all files may still not write to a socket."""
    who = ["setpriv", "--reuid", SOMEBODY, "--regid", SOMEBODY, "--clear-groups"]
    who += ["--securebits", "+no_setuid_fixup", "--inh-caps", "+dac_read_search", "--ambient-caps", "+dac_read_search"]
    if subprocess.run([*who, "true"], capture_output=True).returncode != 0:
        pytest.skip("this machine does not let root become another user that reads all files")
    os.chown(box.folder, int(SOMEBODY), int(SOMEBODY))
    yield who, box.engine.url


def older(version: str, api: str) -> Door:
    """The real engine's words, but for its version: so old a one cannot be had."""

    @contextlib.contextmanager
    def door(box: Box) -> Iterator[tuple[list[str], str]]:
        asked = ["curl", "-s", "--unix-socket", str(box.engine.socket)]

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, format: str, *args: object) -> None:
                """Nothing."""

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
            (not_running, "the container engine is not running", "start it, or correct DOCKER_HOST"),
            (not_permitted, "this user may not use the container engine", "usermod -aG docker"),
            (older("20.10.9", "1.41"), "Docker 20.10.9 is too old: its seccomp profile", "upgrade to Docker 20.10.10"),
            (older("1.11.2", "1.23"), "the container engine is too old", "upgrade to Docker 20.10.10"),
        ),
    ),
    ids=("not running", "no permission", "seccomp", "API"),
)
def test_closed_door(box: Box, door: Door, words: str, next_words: str) -> None:
    """Without a usable engine: exit 1 with the reason, nothing is done; --dry-run shows the plan all the same."""
    lean(box)
    with door(box) as (who, url):
        env = {**box.variables, "DOCKER_HOST": url}
        done, shown = (
            subprocess.run([*who, *box.argv(word)], cwd=box.folder, env=env, capture_output=True, text=True, timeout=60)
            for word in ("--yes", "--dry-run")
        )

    clear(done, 1, words, next_words)
    untouched(box)
    assert (shown.returncode, "step 3" in shown.stdout, words in " ".join(shown.stdout.split())) == (1, True, True)
    assert box.run("--yes").returncode == 0


def test_mount_without_source(box: Box) -> None:
    """A folder of the host's that the container wants and that is not there: refused, and not made by anybody."""
    tools = box.folder / "tools"
    lean(box)
    tools.rmdir()
    done = box.run("--yes")

    clear(done, 1, str(tools), "")
    untouched(box)
    assert not tools.exists()
    tools.mkdir()
    good(box)


def test_undo_leaves_a_strangers_container(box: Box, python_image_here: str) -> None:
    """Somebody removed our container and gave its name to one of theirs: it stays, and the rest is taken back."""
    lean(box)
    assert box.run("--yes").returncode == 0
    box.engine.docker("rm", "-f", box.name)
    box.engine.docker("create", "--name", box.name, python_image_here, "true")
    back = box.run("--undo", "--yes")

    assert back.returncode == 0, back.stderr
    assert f"the container {box.name}: kept" in back.stdout
    assert not box.notes.exists()
    assert box.engine.docker("inspect", box.name, check=False).returncode == 0


def lacking(folder: Path) -> None:
    shutil.rmtree(folder / "second")


def broken(folder: Path) -> None:
    """As the index announces it, and yet no wheel."""
    path = wheel(folder, "second", "2.1")
    path.write_bytes(path.read_bytes()[:100])
    (path.parent / "index.html").write_text(f'<a href="{path.name}">{path.name}</a>')


def changed(folder: Path) -> None:
    """Not what the index announces."""
    path = folder / "second" / "second-2.1-py3-none-any.whl"
    path.write_bytes(path.read_bytes() + b"x")


def for_another(folder: Path) -> None:
    path = folder / "second" / "second-2.1-py3-none-any.whl"
    name = path.rename(path.with_name("second-2.1-cp36-cp36m-linux_x86_64.whl")).name
    (path.parent / "index.html").write_text(f'<a href="{name}">{name}</a>')


@pytest.mark.parametrize(
    ("fault", "words"),
    thin_out(
        1,
        (
            (lacking, "the index has nothing that fits second"),
            (for_another, "the index has nothing that fits second"),
            (broken, "a downloaded file is damaged"),
            (changed, "has another hash than it must have"),
        ),
    ),
)
def test_index_that_fails(box: Box, fault: Callable[[Path], None], words: str, tmp_path: Path) -> None:
    """What the index lacks or spoils is exit 4 before anything is installed; the container stays, and only what is
    missing is done by the next run."""
    fault(tmp_path / "index")
    done = box.run("--yes")
    names = [name for name, _ in (line.split("==") for line in box.inside("pip", "freeze", "--all").split())]
    shutil.rmtree(tmp_path / "index" / "second", ignore_errors=True)
    wheel(tmp_path / "index", "second", "2.1")
    count = len(box.events())
    clear(done, 4, words)
    assert f"journal: {box.notes}" in done.stderr
    assert box.events()[-1] == ("packages", "failed")
    assert words in why(box)
    assert not {"first", "second"} & set(names)

    good(box)
    assert [step for step, event in box.events()[count:] if event == "done"] == ["packages", "proof"]


def test_what_was_done_before_it_failed(box: Box, tmp_path: Path) -> None:
    """With --json a failed step's document holds the plan and what was done before it, too."""
    lacking(tmp_path / "index")
    done = box.run("--yes", "--json")
    said = json.loads(done.stdout)

    assert (done.returncode, said["result"], said["exit_code"]) == (4, "failed", 4)
    assert [step["name"] for step in said["steps"]] == ["container", "packages", "proof"]
    assert [each["step"] for each in said["performed"]] == ["container"]
    assert "a container has what its recipe's container.environment" in said["next"]


def test_another_python_inside(box: Box) -> None:
    """An image whose Python the recipe does not take: refused when it is seen, exit 1, without a package in it."""
    recipe = box.folder / "recipes" / "boxed.toml"
    recipe.write_text(recipe.read_text().replace('python = ">=3.9"', 'python = "<3"'))
    done = box.run("--yes")

    clear(done, 1, "is not one that boxed takes (<3)", "docker image inspect")
    assert box.events()[-1] == ("container", "done")
    recipe.write_text(recipe.read_text().replace('python = "<3"', 'python = ">=3.9"'))
    good(box)


def test_interrupted_pip(box: Box, index: Index) -> None:
    """Ctrl-C while a wheel comes: exit 130, noted, no pip runs on in the container; the next run comes to the end."""
    index.mode = "slow"

    def stop(child: subprocess.Popen[str]) -> None:
        until(lambda: child.poll() is not None or "pip" in box.engine.docker("top", box.name).stdout)
        child.send_signal(signal.SIGINT)

    done = meanwhile(box, ("packages", "begun"), stop)
    running = box.engine.docker("top", box.name).stdout
    index.mode = ""

    assert done.returncode == 130, done.stderr
    assert done.stderr.splitlines()[-1] == "envcheck: interrupted"
    assert box.events()[-1] == ("packages", "interrupted")
    assert "pip" not in running
    good(box)


def test_container_that_ends_meanwhile(box: Box, index: Index) -> None:
    """Somebody removes the container while pip works in it: exit 4 says that, not that pip failed."""
    index.mode = "slow"

    def remove(child: subprocess.Popen[str]) -> None:
        until(lambda: child.poll() is not None or "pip" in box.engine.docker("top", box.name).stdout)
        box.engine.docker("rm", "-f", box.name)

    done = meanwhile(box, ("packages", "begun"), remove)
    index.mode = ""

    clear(done, 4, f"the container {box.name} ", "repeat the same command")
    assert "pip failed" not in done.stderr
    assert box.events()[-1] == ("packages", "failed")
    good(box)
