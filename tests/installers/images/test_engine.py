"""Access to the engine: its facts, and every way in which access fails."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingUnixStreamServer

import pytest
import requests

from envcheck.core.errors import STEP_FAILED, StepError
from installers.images import docker_engine, engine_problems
from tests.installers.images.engine_parts import DockerEngine as Part

NOBODY = 65534


def test_facts(engine_here: Part) -> None:
    """A running engine reports its version, the architecture, where images are stored, and the free space there."""
    said = docker_engine.inspect_engine()

    assert said.problem is None
    assert said.version[:1].isdigit()
    assert said.architecture == os.uname().machine
    assert said.root == str(engine_here.root)
    assert said.free_bytes is not None
    assert "trimmed" in said.runtimes
    assert "127.0.0.0/8" in said.insecure


def test_connect(engine_here: Part) -> None:
    """An inspected engine can be used through a client."""
    client = docker_engine.open_client(docker_engine.inspect_engine())

    assert client.ping()
    client.close()


def test_a_removal_has_its_time(fake: Callable[..., None]) -> None:
    """The timeout can be raised for requests that delete files."""
    fake({"Api-Version": "1.41"}, {"ServerVersion": "28.2.2"})
    said = docker_engine.inspect_engine()

    with contextlib.closing(docker_engine.open_client(said, 0.1)) as hasty, pytest.raises(requests.ReadTimeout):
        hasty.api.remove_image("large")
    with contextlib.closing(docker_engine.open_client(said, 60.0)) as patient:
        assert patient.api.remove_image("large") == []


def test_no_permission(engine_here: Part) -> None:
    """A user outside of the docker group gets the advice to join it."""
    told, tell = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            problem = engine_problems.probe_socket(engine_here.docker_host)
            os.write(tell, json.dumps([problem.kind, problem.next_step] if problem else []).encode())
        finally:
            os._exit(0)
    os.close(tell)
    os.waitpid(child, 0)

    kind, next_step = json.loads(os.read(told, 4096))

    assert kind == "denied"
    assert "docker" in next_step
    os.close(told)


def test_absent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without socket and dockerd, the advice is to install docker."""
    default = f"unix://{tmp_path / 'docker.sock'}"
    monkeypatch.setattr(engine_problems, "DEFAULT", default)
    monkeypatch.setattr(engine_problems, "_has_daemon", lambda: False)
    monkeypatch.setenv("PATH", str(tmp_path))

    problem = engine_problems.probe_socket(default)

    assert problem
    assert (problem.kind, "install Docker" in problem.next_step) == ("absent", True)


@pytest.mark.parametrize("stale", (False, True))
def test_not_running(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, stale: bool) -> None:
    """Without a socket, or with one of a dead engine, the advice is to start it; a client gives the same reason."""
    path = tmp_path / "s"
    if stale:
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(str(path))
    monkeypatch.setenv("DOCKER_HOST", f"unix://{path}")

    said = docker_engine.inspect_engine()

    assert said.problem
    assert said.problem.kind == "stopped"
    with pytest.raises(StepError, match="not running") as caught:
        docker_engine.open_client(said)
    assert caught.value.code == STEP_FAILED


def test_hung(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An engine that accepts the connection but never answers times out."""
    monkeypatch.setattr(docker_engine, "ANSWER_S", 0.3)
    with socket.socket(socket.AF_UNIX) as deaf:
        deaf.bind(str(tmp_path / "s"))
        deaf.listen()
        monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path / 's'}")

        said = docker_engine.inspect_engine()

    assert said.problem
    assert said.problem.kind == "hung"


@pytest.mark.parametrize(
    ("version", "api", "kind"),
    (
        ("20.10.9", "1.41", "old"),  # seccomp
        ("19.03.15", "1.40", "old"),
        ("1.11.2", "1.23", "old"),  # the SDK does not speak that any more
        ("20.10.10", "1.41", None),
        ("28.2.2", "1.50", None),
        ("dev", "1.44", None),
    ),
)
def test_too_old(fake: Callable[..., None], version: str, api: str, kind: str | None) -> None:
    """Engines with an old seccomp profile or API are refused; an unreadable version is accepted."""
    fake({"Api-Version": api}, {"ServerVersion": version})

    problem = docker_engine.inspect_engine().problem

    assert (problem.kind if problem else None) == kind


def test_podman_counts_otherwise(fake: Callable[..., None]) -> None:
    """Podman 4 is not taken for an old Docker."""
    fake({"Api-Version": "1.41", "Libpod-Api-Version": "4.3.1"}, {"ServerVersion": "4.3.1"})

    assert docker_engine.inspect_engine().problem is None


@pytest.mark.parametrize(
    ("headers", "info"),
    (
        ({}, []),
        ({"Api-Version": "1.41"}, []),
        ({"Api-Version": "1.41"}, {"ServerVersion": 7, "Runtimes": [1], "DriverStatus": "x", "DockerRootDir": None}),
        ({"Api-Version": "x.y"}, {}),
    ),
)
def test_strange_answers(fake: Callable[..., None], headers: dict[str, str], info: object) -> None:
    """Responses of another structure give empty facts or one message."""
    fake(headers, info)

    said = docker_engine.inspect_engine()

    assert said.problem is None or said.problem.message


def test_newer_stores_and_cdi() -> None:
    """With the containerd store, images are in its folder; CDI devices and folders are reported."""
    info = {
        "DriverStatus": [["driver-type", "io.containerd.snapshotter.v1"]],
        "DockerRootDir": "/var/lib/docker",
        "CDISpecDirs": ["/etc/cdi"],
        "DiscoveredDevices": [{"Source": "cdi", "ID": "iluvatar.com/gpu=0"}, {"Source": "other", "ID": "x"}],
        "Architecture": "arm64",
    }

    said = docker_engine.parse_engine("unix:///run/docker.sock", {"Api-Version": "1.52"}, info)

    assert said.root == "/var/lib/containerd"
    assert (said.cdi, said.cdi_folders, said.architecture) == (("iluvatar.com/gpu=0",), ("/etc/cdi",), "aarch64")


@pytest.mark.parametrize("url", ("nonsense", "tcp://127.0.0.1:1", f"unix:///{'x' * 200}", "tcp://u:word@127.0.0.1:1"))
def test_strange_addresses(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    """A wrong DOCKER_HOST is reported without the password in it."""
    monkeypatch.setenv("DOCKER_HOST", url)

    problem = docker_engine.inspect_engine().problem

    assert problem
    assert "word" not in problem.message


@pytest.fixture
def engine_here(engine: Part, monkeypatch: pytest.MonkeyPatch) -> Part:
    """Set DOCKER_HOST to the session's engine."""
    monkeypatch.setenv("DOCKER_HOST", engine.docker_host)
    monkeypatch.setenv("DOCKER_CONFIG", str(engine.folder))
    return engine


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[..., None]]:
    """An engine that reports chosen facts, because real ones that old are not available."""
    answers: dict[str, object] = {"_ping": "OK", "version": {}, "large": []}
    headers: dict[str, str] = {}

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            """Log nothing."""

        def address_string(self) -> str:
            return "unix"

        def do_DELETE(self) -> None:
            time.sleep(0.5)
            self.do_GET()

        def do_GET(self) -> None:
            body = json.dumps(answers[self.path.partition("?")[0].rpartition("/")[2]]).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

    server = ThreadingUnixStreamServer(str(tmp_path / "s"), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path / 's'}")

    def says(pinged: dict[str, str], info: object) -> None:
        headers.update(pinged)
        answers.update(info=info)

    yield says
    server.shutdown()
    server.server_close()
