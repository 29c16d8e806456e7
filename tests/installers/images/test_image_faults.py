"""Registries, networks and disks that fail, before the pull and during it: one sentence, and a next step."""

from __future__ import annotations

import base64
import contextlib
import functools
import json
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import docker
import pytest

from envcheck.core.errors import STEP_FAILED, StepError
from installers.images import engine as engines
from installers.images import image, image_pull, pull_resume, reference
from installers.images import registry as registries
from installers.images.manifest import ResolvedImage
from installers.state.progress import Event
from tests.installers.images import image_parts
from tests.installers.images.engine_parts import Engine, Registry, free_port, running_engine, scratch
from tests.installers.images.registry_faults import Fault, Front, front

pytestmark = pytest.mark.real

MIB = 1 << 20
NOT_HERE = {"amd64": "arm64", "arm64": "amd64"}[
    {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, "amd64")
]


def quiet(event: Event) -> None:
    """Nobody listens."""


@pytest.fixture(scope="module")
def hasty() -> Iterator[Engine]:
    """An engine that tries every layer once more only: the usual five times take a minute."""
    with running_engine("--max-download-attempts", "1") as made:
        yield made


@pytest.fixture
def client(hasty: Engine, monkeypatch: pytest.MonkeyPatch) -> Iterator[docker.DockerClient]:
    """A client of it, and pauses that are over soon."""
    monkeypatch.setenv("DOCKER_HOST", hasty.url)
    monkeypatch.setenv("DOCKER_CONFIG", str(hasty.folder))
    monkeypatch.setattr(image_pull, "PAUSE_S", 0.01)
    monkeypatch.setattr(registries, "PAUSE_S", 0.01)
    with contextlib.closing(docker.from_env(version="auto")) as made:
        yield made


@pytest.fixture
def between(registry: Registry, name: str) -> Iterator[Front]:
    """A proxy in front of the registry that holds the image, without faults so far."""
    image_parts.push(f"{registry.address}/{name}", image_parts.random_layers(3, MIB))
    with front(registry.url) as made:
        yield made


@pytest.fixture
def name() -> str:
    """An image's name without its registry, each time another."""
    return f"envcheck/faulty-{os.urandom(4).hex()}:1"


@pytest.fixture
def find(client: docker.DockerClient) -> Callable[..., ResolvedImage]:
    """What the first of the names that can be looked up leads to."""

    def of(*names: str, wanted: str = "", read_s: float = 5.0) -> ResolvedImage:
        references = [reference.parse(one) for one in names]
        return registries.resolve(references, engines.look(), image.credentials(client), wanted, read_s)

    return of


def refused(*actions: Callable[[], object]) -> StepError:
    """The failure of the actions: one sentence with a next step, without a trace of Python in it."""
    with pytest.raises(StepError) as caught:
        for action in actions:
            action()
    err = caught.value
    assert err.code == STEP_FAILED
    assert err.next_step
    assert "\n" not in err.message
    assert not any(word in err.message for word in ("Traceback", "Error(", "HTTPConnection", "object at"))
    return err


def test_down(find: Callable[..., ResolvedImage], name: str) -> None:
    """A registry that is down is named."""
    address = f"127.0.0.1:{free_port()}"

    assert f"{address} cannot be reached" in refused(lambda: find(f"{address}/{name}")).message


def test_no_such_host(find: Callable[..., ResolvedImage]) -> None:
    """So is one whose name leads nowhere."""
    assert "registry.invalid" in refused(lambda: find("registry.invalid/a/b:1")).message


def test_the_next_one(find: Callable[..., ResolvedImage], between: Front, name: str) -> None:
    """Registries are asked in order until one has the image; when none has, each says why."""
    down, other = f"127.0.0.1:{free_port()}/{name}", f"{between.address}/envcheck/absent:1"

    assert find(down, other, f"{between.address}/{name}").reference.host == between.address
    message = refused(lambda: find(down, other)).message
    assert "cannot be reached" in message
    assert "has no envcheck/absent" in message


def test_hanging_lookup(find: Callable[..., ResolvedImage], between: Front, name: str) -> None:
    """A registry that stops in the middle of an answer is given up."""
    between.faults.append(Fault("/manifests/", cut_after=10, hang=True))

    assert "did not answer" in refused(lambda: find(f"{between.address}/{name}", read_s=0.5)).message


def test_lookup_cut_once(find: Callable[..., ResolvedImage], between: Front, name: str) -> None:
    """A lookup that was cut is repeated."""
    between.faults.append(Fault("/manifests/", times=1, cut_after=10))

    assert find(f"{between.address}/{name}")


@pytest.mark.parametrize(
    ("fault", "words", "next_words"),
    (
        (Fault("/manifests/", status=404), "has no", "--registry"),
        (Fault("/manifests/", status=401), "credentials", "docker login 127.0.0.1"),
        (Fault("/manifests/", status=403), "credentials", "docker login 127.0.0.1"),
        (Fault("/manifests/", status=500), "HTTP status 500", "later"),
        (Fault("/manifests/", status=429), "too many", "wait"),
        (Fault("/manifests/", status=200, body=b"<html>welcome</html>"), "no JSON", "--registry"),
        (Fault("/manifests/", status=200, body=b"[" * 100000), "JSON", "--registry"),
        (Fault("/manifests/", status=200, body=b'{"schemaVersion": 1}'), "kind", "--registry"),
        (Fault("/manifests/", status=200, body=b" " * (5 * MIB)), "more than 4096 KiB", "--registry"),
        (Fault("/manifests/", status=200, body=b'{"manifests": [7, {}]}'), "no Linux at all", "--registry"),
        (Fault("/blobs/", change=lambda body: body + b" "), "changed", "--registry"),
        (Fault("/blobs/", status=404), "has no", "--registry"),
        (Fault("/manifests/", status=302, headers={"Location": "file:///x"}), "cannot be followed", "--registry"),
        (
            Fault("/manifests/", status=401, headers={"WWW-Authenticate": 'Bearer realm="file:///x"'}),
            "credent",
            "login",
        ),
    ),
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_answers(
    find: Callable[..., ResolvedImage], between: Front, name: str, fault: Fault, words: str, next_words: str
) -> None:
    """Whatever a registry answers to a lookup, the sentence says what is the matter."""
    between.faults.append(fault)

    err = refused(lambda: find(f"{between.address}/{name}"))

    assert words in err.message
    assert next_words in err.next_step


def test_wrong_architecture(find: Callable[..., ResolvedImage], registry: Registry, name: str) -> None:
    """An image for another architecture is refused before anything is pulled, alone or in a list."""
    layers = [image_parts.busybox()]
    digest = image_parts.push(f"{registry.address}/{name}", layers, architecture=NOT_HERE)
    listed = f"{registry.address}/{name}-list"
    image_parts.push_list(listed, {NOT_HERE: digest})

    for one in (f"{registry.address}/{name}", listed):
        assert f"this host's engine is {os.uname().machine}" in refused(functools.partial(find, one)).message


def test_moved_tag(find: Callable[..., ResolvedImage], registry: Registry, between: Front, name: str) -> None:
    """A tag that leads elsewhere than the wanted digest is told with both; the digest itself still leads there."""
    before = find(f"{between.address}/{name}")
    image_parts.push(f"{registry.address}/{name}", [image_parts.busybox()])

    message = refused(lambda: find(f"{between.address}/{name}", wanted=before.digest)).message

    assert before.digest in message
    assert find(str(before.pinned), wanted=before.digest).digest == before.digest


def test_changed_under_its_digest(find: Callable[..., ResolvedImage], between: Front, name: str) -> None:
    """Something else under a digest is refused."""
    found = find(f"{between.address}/{name}")
    between.faults.append(Fault("/manifests/sha256", change=lambda body: body.replace(b"layers", b"layerz")))

    assert "changed" in refused(lambda: find(str(found.pinned))).message


def test_cut_once(client: docker.DockerClient, find: Callable[..., ResolvedImage], between: Front, name: str) -> None:
    """A connection that is cut in mid-layer is taken up at the byte where it was cut."""
    found = find(f"{between.address}/{name}")
    last = found.layers[-1].digest
    between.faults.append(Fault(last, times=1, cut_after=MIB // 2))

    image_pull.pull(client, found, quiet)

    ranges = [headers["Range"] for _, path, headers in between.asked if last in path and "Range" in headers]
    assert ranges
    assert all(int(one.removeprefix("bytes=").partition("-")[0]) >= MIB // 4 for one in ranges)
    assert image.here(client, found)


def test_cut_always(
    client: docker.DockerClient,
    find: Callable[..., ResolvedImage],
    between: Front,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A connection that is always cut is given up after some attempts, and what was finished stays for the next run."""
    monkeypatch.setattr(image_pull, "ATTEMPTS", 2)
    found, events = find(f"{between.address}/{name}"), list[Event]()
    between.faults.append(Fault(found.layers[-1].digest, cut_after=MIB // 2))

    err = refused(lambda: image_pull.pull(client, found, events.append, every_s=0))

    assert "broke off" in err.message
    assert sum("trying again" in event.text for event in events) == 1
    assert image.here(client, found) is None
    assert pull_resume.kept(client, found) == 2
    pull_resume.forget(client, found.digest)
    assert pull_resume.kept(client, found) == 0


def test_slow(client: docker.DockerClient, find: Callable[..., ResolvedImage], between: Front, name: str) -> None:
    """A registry that is slow, yet goes on, is waited for, longer than one that is silent."""
    found = find(f"{between.address}/{name}")
    between.faults.append(Fault(found.layers[0].digest, pace_s=0.03))

    assert image_pull.pull(client, found, quiet, stall_s=1.0)


def test_silent_layer(
    client: docker.DockerClient, find: Callable[..., ResolvedImage], between: Front, name: str
) -> None:
    """A registry that falls silent in mid-layer is given up."""
    found = find(f"{between.address}/{name}")
    between.faults.append(Fault(found.layers[0].digest, cut_after=1000, hang=True))

    err = refused(lambda: image_pull.pull(client, found, quiet, stall_s=0.5))

    assert "nothing arrived" in err.message


def test_damaged_layer(
    client: docker.DockerClient, find: Callable[..., ResolvedImage], between: Front, name: str
) -> None:
    """A layer whose bytes were changed on the way is refused by its digest."""
    found = find(f"{between.address}/{name}")
    between.faults.append(Fault(found.layers[0].digest, change=lambda body: body[:-9] + b"x" + body[-8:]))

    assert "damaged" in refused(lambda: image_pull.pull(client, found, quiet)).message
    assert image.here(client, found) is None


def test_gone_between_lookup_and_pull(
    client: docker.DockerClient, find: Callable[..., ResolvedImage], between: Front, name: str
) -> None:
    """An image that is deleted after the lookup is told as such."""
    found = find(f"{between.address}/{name}")
    between.faults.append(Fault("/manifests/", status=404, body=b'{"errors": [{"code": "MANIFEST_UNKNOWN"}]}'))

    assert "does not have it any more" in refused(lambda: image_pull.pull(client, found, quiet)).message


@pytest.mark.parametrize("kind", ("bearer", "basic"))
def test_credentials(
    hasty: Engine,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    find: Callable[..., ResolvedImage],
    between: Front,
    name: str,
    kind: str,
) -> None:
    """What docker login left opens the door, for the lookup and for the engine, with a token or without; a ~/.netrc
    does not."""
    word = base64.b64encode(b"someone:word").decode()
    wants = {"bearer": f'Bearer realm="http://{between.address}/token",service="s"', "basic": 'Basic realm="r"'}[kind]
    key = {"bearer": "Bearer abc", "basic": f"Basic {word}"}[kind]
    between.faults += [
        Fault("^/v2/", status=401, headers={"WWW-Authenticate": wants}, unless_header=key),
        Fault("^/token", status=401, unless_header=word),
        Fault("^/token", status=200, body=b'{"token": "abc"}'),
    ]
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login someone password word\n")
    (tmp_path / ".netrc").chmod(0o600)
    assert "credentials" in refused(lambda: find(f"{between.address}/{name}")).message

    (tmp_path / "config.json").write_text(json.dumps({"auths": {between.address: {"auth": word}}}))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    found = find(f"{between.address}/{name}")
    with contextlib.closing(engines.connect(engines.look())) as client:
        assert image_pull.pull(client, found, quiet).digest == found.digest


def test_engine_ends_in_the_middle(
    monkeypatch: pytest.MonkeyPatch, find: Callable[..., ResolvedImage], between: Front, name: str
) -> None:
    """An engine that is killed during the pull is told as such."""
    found = find(f"{between.address}/{name}")
    between.faults.append(Fault(found.layers[0].digest, cut_after=1000, hang=True))
    with running_engine() as doomed:
        monkeypatch.setenv("DOCKER_HOST", doomed.url)
        with contextlib.closing(engines.connect(engines.look())) as client:
            threading.Timer(0.5, os.kill, (doomed.pid, signal.SIGKILL)).start()

            assert "engine" in refused(lambda: image_pull.pull(client, found, quiet)).message


def test_disk_full(monkeypatch: pytest.MonkeyPatch, registry: Registry, name: str) -> None:
    """A disk that is too small is told beforehand with figures; when it fills up all the same, that is the sentence,
    and after room was made the same pull goes through."""
    with scratch() as folder:
        disk = folder / "disk"
        disk.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "none", str(disk)], check=True)
        with running_engine(root=disk) as tight:
            monkeypatch.setenv("DOCKER_HOST", tight.url)
            monkeypatch.setenv("DOCKER_CONFIG", str(tight.folder))
            image_parts.push(f"{registry.address}/{name}", image_parts.random_layers(4, 3 * MIB))
            seen = engines.look()
            with contextlib.closing(engines.connect(seen)) as client:
                found = registries.resolve(
                    [reference.parse(f"{registry.address}/{name}")], seen, image.credentials(client)
                )
                problem = image.room(found, seen)
                assert problem
                assert str(disk) in problem.message

                err = refused(lambda: image_pull.pull(client, found, quiet, every_s=0))
                assert "disk filled up" in err.message

                subprocess.run(["mount", "-o", "remount,size=64m", str(disk)], check=True)
                assert image_pull.pull(client, found, quiet).digest == found.digest
