"""Commands and files in a real container, as packages and proof use them."""

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
from installers.targets.target import answer
from tests.installers.images.engine_parts import Engine


@pytest.fixture(scope="module")
def client(engine: Engine) -> Iterator[docker.DockerClient]:
    made = docker.DockerClient(engine.url, version="auto", timeout=120)
    yield made
    made.close()


@pytest.fixture(scope="module")
def target(
    engine: Engine, python_image_here: str, client: docker.DockerClient, tmp_path_factory
) -> Iterator[ContainerTarget]:  # type: ignore[no-untyped-def]
    """A running container with a Python, and a folder of this host for our notes."""
    name = "envcheck-test-inside"
    engine.docker("run", "-dit", "--name", name, "--network", "host", python_image_here, "bash")
    yield ContainerTarget(client.api, name, "python3", tmp_path_factory.mktemp("notes"))
    engine.docker("rm", "-f", name)


def test_a_command(target: ContainerTarget) -> None:
    """Both streams, each line as it comes, the status, and the variables that were given."""
    seen: list[str] = []
    done = target.run(
        ("bash", "-c", "echo $WORD; echo no >&2; pwd; exit 7"), timeout_s=60, env={"WORD": "yes"}, on_line=seen.append
    )

    assert (done.status, done.out, done.err, done.hung) == (7, f"yes\n{OWN}\n", "no\n", False)
    assert sorted(seen) == sorted(["yes", "no", OWN])


def test_a_program_that_is_missing(target: ContainerTarget) -> None:
    """It is an answer, as on the host."""
    assert target.run(("no-such-program",), timeout_s=60, env={}).absent


def test_an_end_that_the_engine_learns_of_later(target: ContainerTarget, monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy engine hands out a command's last words before it knows that it ended: its status is waited for."""
    real, asked = target.api.exec_inspect, []

    def late(command: str) -> dict[str, object]:
        asked.append(command)
        return {"Running": True, "ExitCode": None} if len(asked) < 3 else real(command)

    monkeypatch.setattr(target.api, "exec_inspect", late)

    assert target.run(("bash", "-c", "echo done; exit 3"), timeout_s=60, env={}).status == 3
    assert len(asked) == 3


def until_it_fails(target: ContainerTarget) -> str:
    """What is said once commands, one after the other, no longer succeed."""
    try:
        while (done := target.run(("true",), timeout_s=60, env={})).status == 0:
            pass
    except StepError as err:
        return str(err)
    return f"{done.status}: {done.out}{done.err}"


def test_a_container_that_is_removed_under_commands(
    target: ContainerTarget, engine: Engine, python_image_here: str
) -> None:
    """At whatever moment of a command the container ends, that is what is said, not what the engine says of itself."""
    said: list[str] = []
    for number in range(6):
        name = f"envcheck-test-removed-{number}"
        engine.docker("run", "-dit", "--name", name, "--network", "host", python_image_here, "bash")
        one = replace(target, container=name)
        threads = [threading.Thread(target=lambda one=one: said.append(until_it_fails(one))) for _ in range(4)]
        for each in threads:
            each.start()
        time.sleep(0.05 * number)
        engine.docker("rm", "-f", name)
        for each in threads:
            each.join(300)

    assert len(said) == 24
    assert all(each.startswith("the container envcheck-test-removed-") for each in said), said


def left(engine: Engine, word: str) -> bool:
    return word in engine.docker("top", "envcheck-test-inside").stdout


def test_a_deadline(target: ContainerTarget, engine: Engine) -> None:
    """At its deadline a command is ended with what it started, and said to have hung."""
    began = time.monotonic()
    done = target.run(("bash", "-c", "sleep 4711 & sleep 4711"), timeout_s=1, env={})

    assert done.hung
    assert time.monotonic() - began < 600
    assert not left(engine, "4711")


def test_an_interruption(target: ContainerTarget, engine: Engine) -> None:
    """Whatever ends the wait ends the command in the container, too."""

    def stop(line: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        target.run(("bash", "-c", "echo on; sleep 4712"), timeout_s=60, env={}, on_line=stop)
    until = time.monotonic() + 60
    while left(engine, "4712") and time.monotonic() < until:
        time.sleep(0.1)

    assert not left(engine, "4712")


def test_what_a_killed_envcheck_left(target: ContainerTarget, engine: Engine) -> None:
    """`end` ends a command that nobody waits for any more."""
    thread = threading.Thread(target=lambda: target.run(("sleep", "4713"), timeout_s=60, env={}), daemon=True)
    thread.start()
    until = time.monotonic() + 60
    while not left(engine, "4713") and time.monotonic() < until:
        time.sleep(0.1)
    target.end()
    thread.join(300)

    assert not left(engine, "4713")


def test_files(target: ContainerTarget) -> None:
    """What is written is read, a folder is empty at first, and what is not there is no error."""
    folder = target.fresh("some thing")
    target.write(f"{folder}/a b.txt", "ü\n")

    assert target.names(folder) == ["a b.txt"]
    assert target.read(f"{folder}/a b.txt") == "ü\n"
    assert target.names(target.fresh("some thing")) == []
    assert (target.read(f"{folder}/gone"), target.names("/gone")) == ("", [])


@pytest.mark.parametrize(("losses", "whole"), ((1, True), (9, False)))
@pytest.mark.parametrize("way", ("read", "names", "answer"))
def test_lost_words(target: ContainerTarget, way: str, losses: int, whole: bool) -> None:
    """A file, a folder or an answer whose words the engine lost on their way is asked for again, and not for ever:
    no words would be an answer, too."""
    place = target.fresh("lost")
    target.write(f"{place}/file", "here")
    lossy = replace(target, api=Lossy(target.api, losses))
    asked: dict[str, tuple[Callable[[], object], object]] = {
        "read": (lambda: lossy.read(f"{place}/file"), "here"),
        "names": (lambda: lossy.names(place), ["file"]),
        "answer": (lambda: answer(lossy, ("ls", place), timeout_s=60, env={}), (0, "file")),
    }
    ask, right = asked[way]

    if whole:
        assert ask() == right
    else:
        with pytest.raises(StepError, match="whole"):
            ask()


class Lossy:
    """An engine whose next so many commands say nothing."""

    def __init__(self, api: docker.APIClient, losses: int) -> None:
        self._api, self._losses = api, losses

    def __getattr__(self, name: str) -> object:
        return getattr(self._api, name)

    def exec_start(self, *words: str, **more: bool) -> Iterator[tuple[bytes, bytes]]:
        said = list(self._api.exec_start(*words, **more))
        self._losses -= 1
        return iter(() if self._losses >= 0 else said)


def test_its_packages(target: ContainerTarget) -> None:
    """The container's own Python tells its version, and what pip put there with it."""
    before = target.environment()
    done = target.run(
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
    assert target.environment().packages["some-thing"] == "1.2"
    assert target.environment().torn == ("half",)


def test_no_such_python(target: ContainerTarget) -> None:
    """A Python that the image lacks is one sentence."""
    with pytest.raises(StepError, match="python9 in the container"):
        ContainerTarget(target.api, target.container, "python9", Path("/tmp")).environment()
