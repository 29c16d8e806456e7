"""Commands and files in a real container, as packages and verification use them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import docker
import pytest

from envcheck.core.errors import StepError
from installers.targets.exec_target import OWN, ContainerTarget
from installers.targets.target import read_answer
from tests.installers.images.engine_parts import DockerEngine


@pytest.fixture(scope="module")
def client(engine: DockerEngine) -> Iterator[docker.DockerClient]:
    made = docker.DockerClient(engine.docker_host, version="auto", timeout=120)
    yield made
    made.close()


@pytest.fixture(scope="module")
def target(
    engine: DockerEngine, python_image_here: str, client: docker.DockerClient, tmp_path_factory
) -> Iterator[ContainerTarget]:  # type: ignore[no-untyped-def]
    """A running container with Python, and a folder on this host for records."""
    name = "envcheck-test-inside"
    engine.run_docker("run", "-dit", "--name", name, "--network", "host", python_image_here, "bash")
    yield ContainerTarget(client.api, name, "python3", tmp_path_factory.mktemp("notes"))
    engine.run_docker("rm", "-f", name)


def test_a_command(target: ContainerTarget) -> None:
    """Both output streams, each line as it comes, the exit status, and the given variables."""
    seen: list[str] = []
    done = target.run_command(
        ("bash", "-c", "echo $WORD; echo no >&2; pwd; exit 7"), timeout_s=60, env={"WORD": "yes"}, on_line=seen.append
    )

    assert (done.status, done.out, done.err, done.hung) == (7, f"yes\n{OWN}\n", "no\n", False)
    assert sorted(seen) == sorted(["yes", "no", OWN])


def test_a_program_that_is_missing(target: ContainerTarget) -> None:
    """A missing program is a result, as on the host."""
    assert target.run_command(("no-such-program",), timeout_s=60, env={}).absent


def test_an_end_that_the_engine_learns_of_later(target: ContainerTarget, monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy engine may return the last output before the command ended: its status is waited for."""
    real, asked = target.api.exec_inspect, []

    def late(command: str) -> dict[str, object]:
        asked.append(command)
        return {"Running": True, "ExitCode": None} if len(asked) < 3 else real(command)

    monkeypatch.setattr(target.api, "exec_inspect", late)

    assert target.run_command(("bash", "-c", "echo done; exit 3"), timeout_s=60, env={}).status == 3
    assert len(asked) == 3


def run_until_failure(target: ContainerTarget) -> str:
    """Run commands until one fails; return the message."""
    try:
        while (done := target.run_command(("true",), timeout_s=60, env={})).status == 0:
            pass
    except StepError as err:
        return str(err)
    return f"{done.status}: {done.out}{done.err}"


def test_a_container_that_is_removed_under_commands(
    target: ContainerTarget, engine: DockerEngine, python_image_here: str
) -> None:
    """If the container ends during a command, that is the message, not the engine's own error."""
    said: list[str] = []
    for number in range(6):
        name = f"envcheck-test-removed-{number}"
        engine.run_docker("run", "-dit", "--name", name, "--network", "host", python_image_here, "bash")
        one = replace(target, container=name)
        threads = [threading.Thread(target=lambda one=one: said.append(run_until_failure(one))) for _ in range(4)]
        for each in threads:
            each.start()
        time.sleep(0.05 * number)
        engine.run_docker("rm", "-f", name)
        for each in threads:
            each.join(300)

    assert len(said) == 24
    assert all(each.startswith("container envcheck-test-removed-") for each in said), said


def is_running(engine: DockerEngine, word: str) -> bool:
    return word in engine.run_docker("top", "envcheck-test-inside").stdout


def test_a_deadline(target: ContainerTarget, engine: DockerEngine) -> None:
    """At its timeout a command is ended with its child processes, and reported as hung."""
    began = time.monotonic()
    done = target.run_command(("bash", "-c", "sleep 4711 & sleep 4711"), timeout_s=1, env={})

    assert done.hung
    assert time.monotonic() - began < 600
    assert not is_running(engine, "4711")


def test_an_interruption(target: ContainerTarget, engine: DockerEngine) -> None:
    """An interrupted wait ends the command in the container, too."""

    def stop(line: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        target.run_command(("bash", "-c", "echo on; sleep 4712"), timeout_s=60, env={}, on_line=stop)
    until = time.monotonic() + 60
    while is_running(engine, "4712") and time.monotonic() < until:
        time.sleep(0.1)

    assert not is_running(engine, "4712")


def test_what_a_killed_envcheck_left(target: ContainerTarget, engine: DockerEngine) -> None:
    """`end_commands` ends a command that nobody waits for any more."""
    thread = threading.Thread(target=lambda: target.run_command(("sleep", "4713"), timeout_s=60, env={}), daemon=True)
    thread.start()
    until = time.monotonic() + 60
    while not is_running(engine, "4713") and time.monotonic() < until:
        time.sleep(0.1)
    target.end_commands()
    thread.join(300)

    assert not is_running(engine, "4713")


def test_files(target: ContainerTarget) -> None:
    """A written file is read back, a new folder is empty, and a missing file is no error."""
    folder = target.make_empty_folder("some thing")
    target.write_file(f"{folder}/a b.txt", "ü\n")

    assert target.list_folder(folder) == ["a b.txt"]
    assert target.read_file(f"{folder}/a b.txt") == "ü\n"
    assert target.list_folder(target.make_empty_folder("some thing")) == []
    assert (target.read_file(f"{folder}/gone"), target.list_folder("/gone")) == ("", [])


@pytest.mark.parametrize(("losses", "whole"), ((1, True), (9, False)))
@pytest.mark.parametrize("way", ("read", "names", "answer"))
def test_lost_words(target: ContainerTarget, way: str, losses: int, whole: bool) -> None:
    """Output lost by the engine is requested again, a limited number of times; empty output is valid."""
    place = target.make_empty_folder("lost")
    target.write_file(f"{place}/file", "here")
    lossy = replace(target, api=LossyApi(target.api, losses))
    asked: dict[str, tuple[Callable[[], object], object]] = {
        "read": (lambda: lossy.read_file(f"{place}/file"), "here"),
        "names": (lambda: lossy.list_folder(place), ["file"]),
        "answer": (lambda: read_answer(lossy, ("ls", place), timeout_s=60, env={}), (0, "file")),
    }
    ask, right = asked[way]

    if whole:
        assert ask() == right
    else:
        with pytest.raises(StepError, match="incomplete output"):
            ask()


class LossyApi:
    """An engine that loses the output of the next commands."""

    def __init__(self, api: docker.APIClient, losses: int) -> None:
        self._api, self._losses = api, losses

    def __getattr__(self, name: str) -> object:
        return getattr(self._api, name)

    def exec_start(self, *words: str, **more: bool) -> Iterator[tuple[bytes, bytes]]:
        said = list(self._api.exec_start(*words, **more))
        self._losses -= 1
        return iter(() if self._losses >= 0 else said)


def test_its_packages(target: ContainerTarget) -> None:
    """The container's Python reports its version and its packages."""
    before = target.read_environment()
    done = target.run_command(
        (target.python, "-c", """
import pathlib, sysconfig
info = pathlib.Path(sysconfig.get_paths()['purelib'], 'some_thing-1.2.dist-info')
info.mkdir(parents=True, exist_ok=True)
(info / 'RECORD').write_text('')
(info / 'METADATA').write_text('Metadata-Version: 2.1\\nName: some-thing\\nVersion: 1.2\\n')
info.with_name('half-1.dist-info').mkdir(exist_ok=True)
"""),
        timeout_s=60,
        env={},
    )  # fmt: skip

    assert done.status == 0, done.err
    assert before.python.startswith("3.")
    assert target.read_environment().packages["some-thing"] == "1.2"
    assert target.read_environment().torn == ("half",)


def test_no_such_python(target: ContainerTarget) -> None:
    """A Python that the image lacks is reported."""
    with pytest.raises(StepError, match="cannot run python9 in container"):
        ContainerTarget(target.api, target.container, "python9", Path("/tmp")).read_environment()
