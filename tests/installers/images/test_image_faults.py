"""Registries, networks and disks that fail before and during a pull: one message with a next step."""

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
from installers.images import docker_engine as engines
from installers.images import local_image, pull, pull_resume, reference
from installers.images import registry as registries
from installers.images.manifest import ResolvedImage
from installers.state.progress import ProgressEvent
from tests.installers.images import image_parts
from tests.installers.images.engine_parts import DockerEngine, LocalRegistry, find_free_port, make_scratch, start_engine
from tests.installers.images.registry_faults import FaultyProxy, RegistryFault, start_proxy

pytestmark = pytest.mark.real

MIB = 1 << 20
NOT_HERE = {"amd64": "arm64", "arm64": "amd64"}[
    {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, "amd64")
]


def ignore_event(event: ProgressEvent) -> None:
    """Ignore progress."""


@pytest.fixture(scope="module")
def hasty() -> Iterator[DockerEngine]:
    """An engine that retries each layer once: the usual five times take a minute."""
    with start_engine("--max-download-attempts", "1") as made:
        yield made


@pytest.fixture
def client(hasty: DockerEngine, monkeypatch: pytest.MonkeyPatch) -> Iterator[docker.DockerClient]:
    """A client of that engine, with short pauses."""
    monkeypatch.setenv("DOCKER_HOST", hasty.docker_host)
    monkeypatch.setenv("DOCKER_CONFIG", str(hasty.folder))
    monkeypatch.setattr(pull, "PAUSE_S", 0.01)
    monkeypatch.setattr(registries, "PAUSE_S", 0.01)
    with contextlib.closing(docker.from_env(version="auto")) as made:
        yield made


@pytest.fixture
def between(registry: LocalRegistry, name: str) -> Iterator[FaultyProxy]:
    """A proxy in front of the registry that holds the image, without faults."""
    image_parts.push_image(f"{registry.address}/{name}", image_parts.make_random_layers(3, MIB))
    with start_proxy(registry.base_url) as made:
        yield made


@pytest.fixture
def name() -> str:
    """A unique image name without the registry."""
    return f"envcheck/faulty-{os.urandom(4).hex()}:1"


@pytest.fixture
def find(client: docker.DockerClient) -> Callable[..., ResolvedImage]:
    """Return a function that resolves the first of the names that can be looked up."""

    def of(*names: str, wanted: str = "", read_s: float = 5.0) -> ResolvedImage:
        references = [reference.parse_reference(one) for one in names]
        return registries.resolve_image(
            references, engines.inspect_engine(), local_image.registry_credentials(client), wanted, read_s
        )

    return of


def expect_refusal(*actions: Callable[[], object]) -> StepError:
    """Return the error of the actions: one sentence with a next step, without Python details."""
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
    address = f"127.0.0.1:{find_free_port()}"

    assert f"cannot reach {address}" in expect_refusal(lambda: find(f"{address}/{name}")).message


def test_no_such_host(find: Callable[..., ResolvedImage]) -> None:
    """An unknown host name is named."""
    assert "registry.invalid" in expect_refusal(lambda: find("registry.invalid/a/b:1")).message


def test_the_next_one(find: Callable[..., ResolvedImage], between: FaultyProxy, name: str) -> None:
    """Registries are tried in order until one has the image; if none has, each reason is listed."""
    down, other = f"127.0.0.1:{find_free_port()}/{name}", f"{between.host_port}/envcheck/absent:1"

    assert find(down, other, f"{between.host_port}/{name}").reference.host == between.host_port
    message = expect_refusal(lambda: find(down, other)).message
    assert "cannot reach" in message
    assert "envcheck/absent with tag 1 not found" in message


def test_hanging_lookup(find: Callable[..., ResolvedImage], between: FaultyProxy, name: str) -> None:
    """A registry that stops in the middle of a response times out."""
    between.faults.append(RegistryFault("/manifests/", cut_after=10, hang=True))

    assert "did not respond within" in expect_refusal(lambda: find(f"{between.host_port}/{name}", read_s=0.5)).message


def test_lookup_cut_once(find: Callable[..., ResolvedImage], between: FaultyProxy, name: str) -> None:
    """An interrupted look-up is retried."""
    between.faults.append(RegistryFault("/manifests/", times=1, cut_after=10))

    assert find(f"{between.host_port}/{name}")


@pytest.mark.parametrize(
    ("fault", "words", "next_words"),
    (
        (RegistryFault("/manifests/", status=404), "not found on", "--registry"),
        (RegistryFault("/manifests/", status=401), "credentials", "run `docker login 127.0.0.1:"),
        (RegistryFault("/manifests/", status=403), "credentials", "run `docker login 127.0.0.1:"),
        (RegistryFault("/manifests/", status=500), "HTTP status 500", "later"),
        (RegistryFault("/manifests/", status=429), "rate limit of", "wait"),
        (RegistryFault("/manifests/", status=200, body=b"<html>welcome</html>"), "is not JSON", "--registry"),
        (RegistryFault("/manifests/", status=200, body=b"[" * 100000), "JSON", "--registry"),
        (
            RegistryFault("/manifests/", status=200, body=b'{"schemaVersion": 1}'),
            "manifest type is no longer supported",
            "--registry",
        ),
        (RegistryFault("/manifests/", status=200, body=b" " * (5 * MIB)), "exceeds 4096 KiB", "--registry"),
        (RegistryFault("/manifests/", status=200, body=b'{"manifests": [7, {}]}'), "no Linux platform", "--registry"),
        (RegistryFault("/blobs/", change=lambda body: body + b" "), "does not match sha256:", "--registry"),
        (RegistryFault("/blobs/", status=404), "not found on", "--registry"),
        (
            RegistryFault("/manifests/", status=302, headers={"Location": "file:///x"}),
            "redirects to an unsupported address",
            "--registry",
        ),
        (
            RegistryFault("/manifests/", status=401, headers={"WWW-Authenticate": 'Bearer realm="file:///x"'}),
            "credent",
            "login",
        ),
    ),
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_answers(
    find: Callable[..., ResolvedImage],
    between: FaultyProxy,
    name: str,
    fault: RegistryFault,
    words: str,
    next_words: str,
) -> None:
    """For any response to a look-up, the message names the cause."""
    between.faults.append(fault)

    err = expect_refusal(lambda: find(f"{between.host_port}/{name}"))

    assert words in err.message
    assert next_words in err.next_step


def test_wrong_architecture(find: Callable[..., ResolvedImage], registry: LocalRegistry, name: str) -> None:
    """An image for another architecture is refused before the pull, alone or in a list."""
    layers = [image_parts.make_busybox()]
    digest = image_parts.push_image(f"{registry.address}/{name}", layers, architecture=NOT_HERE)
    listed = f"{registry.address}/{name}-list"
    image_parts.push_manifest_list(listed, {NOT_HERE: digest})

    for one in (f"{registry.address}/{name}", listed):
        assert (
            f"this host's container engine is {os.uname().machine}"
            in expect_refusal(functools.partial(find, one)).message
        )


def test_moved_tag(
    find: Callable[..., ResolvedImage], registry: LocalRegistry, between: FaultyProxy, name: str
) -> None:
    """If a tag has another digest than wanted, both are reported; the wanted digest can still be resolved."""
    before = find(f"{between.host_port}/{name}")
    image_parts.push_image(f"{registry.address}/{name}", [image_parts.make_busybox()])

    message = expect_refusal(lambda: find(f"{between.host_port}/{name}", wanted=before.digest)).message

    assert before.digest in message
    assert find(str(before.pinned_reference), wanted=before.digest).digest == before.digest


def test_changed_under_its_digest(find: Callable[..., ResolvedImage], between: FaultyProxy, name: str) -> None:
    """Content that does not match its digest is refused."""
    found = find(f"{between.host_port}/{name}")
    between.faults.append(RegistryFault("/manifests/sha256", change=lambda body: body.replace(b"layers", b"layerz")))

    assert "does not match sha256:" in expect_refusal(lambda: find(str(found.pinned_reference))).message


def test_cut_once(
    client: docker.DockerClient, find: Callable[..., ResolvedImage], between: FaultyProxy, name: str
) -> None:
    """A connection lost within a layer is resumed at that byte."""
    found = find(f"{between.host_port}/{name}")
    last = found.layers[-1].digest
    between.faults.append(RegistryFault(last, times=1, cut_after=MIB // 2))

    pull.pull_image(client, found, ignore_event)

    ranges = [headers["Range"] for _, path, headers in between.asked if last in path and "Range" in headers]
    assert ranges
    assert all(int(one.removeprefix("bytes=").partition("-")[0]) >= MIB // 4 for one in ranges)
    assert local_image.find_resolved(client, found)


def test_cut_always(
    client: docker.DockerClient,
    find: Callable[..., ResolvedImage],
    between: FaultyProxy,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """If the connection is always lost, the pull fails after some attempts, and finished layers are kept."""
    monkeypatch.setattr(pull, "ATTEMPTS", 2)
    found, events = find(f"{between.host_port}/{name}"), list[ProgressEvent]()
    between.faults.append(RegistryFault(found.layers[-1].digest, cut_after=MIB // 2))

    err = expect_refusal(lambda: pull.pull_image(client, found, events.append, every_s=0))

    assert "connection lost" in err.message
    assert sum("retrying" in event.text for event in events) == 1
    assert local_image.find_resolved(client, found) is None
    assert pull_resume.count_kept_layers(client, found) == 2
    pull_resume.remove_unfinished(client, found.digest)
    assert pull_resume.count_kept_layers(client, found) == 0


def test_slow(client: docker.DockerClient, find: Callable[..., ResolvedImage], between: FaultyProxy, name: str) -> None:
    """A slow registry is waited for, longer than a silent one."""
    found = find(f"{between.host_port}/{name}")
    between.faults.append(RegistryFault(found.layers[0].digest, pace_s=0.03))

    assert pull.pull_image(client, found, ignore_event, stall_s=1.0)


def test_silent_layer(
    client: docker.DockerClient, find: Callable[..., ResolvedImage], between: FaultyProxy, name: str
) -> None:
    """A registry that goes silent within a layer times out."""
    found = find(f"{between.host_port}/{name}")
    between.faults.append(RegistryFault(found.layers[0].digest, cut_after=1000, hang=True))

    err = expect_refusal(lambda: pull.pull_image(client, found, ignore_event, stall_s=0.5))

    assert "no data received for" in err.message


def test_damaged_layer(
    client: docker.DockerClient, find: Callable[..., ResolvedImage], between: FaultyProxy, name: str
) -> None:
    """A layer whose bytes were changed is refused by its digest."""
    found = find(f"{between.host_port}/{name}")
    between.faults.append(RegistryFault(found.layers[0].digest, change=lambda body: body[:-9] + b"x" + body[-8:]))

    assert (
        "the downloaded data is corrupt" in expect_refusal(lambda: pull.pull_image(client, found, ignore_event)).message
    )
    assert local_image.find_resolved(client, found) is None


def test_gone_between_lookup_and_pull(
    client: docker.DockerClient, find: Callable[..., ResolvedImage], between: FaultyProxy, name: str
) -> None:
    """An image deleted after the look-up is reported as such."""
    found = find(f"{between.host_port}/{name}")
    between.faults.append(RegistryFault("/manifests/", status=404, body=b'{"errors": [{"code": "MANIFEST_UNKNOWN"}]}'))

    err = expect_refusal(lambda: pull.pull_image(client, found, ignore_event))

    assert "the registry no longer has this image" in err.message


@pytest.mark.parametrize("kind", ("bearer", "basic"))
def test_credentials(
    hasty: DockerEngine,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    find: Callable[..., ResolvedImage],
    between: FaultyProxy,
    name: str,
    kind: str,
) -> None:
    """The credentials of docker login are used by look-up and engine, with a token or without; ~/.netrc is not used."""
    word = base64.b64encode(b"someone:word").decode()
    wants = {"bearer": f'Bearer realm="http://{between.host_port}/token",service="s"', "basic": 'Basic realm="r"'}[kind]
    key = {"bearer": "Bearer abc", "basic": f"Basic {word}"}[kind]
    between.faults += [
        RegistryFault("^/v2/", status=401, headers={"WWW-Authenticate": wants}, unless_header=key),
        RegistryFault("^/token", status=401, unless_header=word),
        RegistryFault("^/token", status=200, body=b'{"token": "abc"}'),
    ]
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login someone password word\n")
    (tmp_path / ".netrc").chmod(0o600)
    assert "credentials" in expect_refusal(lambda: find(f"{between.host_port}/{name}")).message

    (tmp_path / "config.json").write_text(json.dumps({"auths": {between.host_port: {"auth": word}}}))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    found = find(f"{between.host_port}/{name}")
    with contextlib.closing(engines.open_client(engines.inspect_engine())) as client:
        assert pull.pull_image(client, found, ignore_event).digest == found.digest


def test_engine_ends_in_the_middle(
    monkeypatch: pytest.MonkeyPatch, find: Callable[..., ResolvedImage], between: FaultyProxy, name: str
) -> None:
    """An engine that is killed during the pull is reported as such."""
    found = find(f"{between.host_port}/{name}")
    between.faults.append(RegistryFault(found.layers[0].digest, cut_after=1000, hang=True))
    with start_engine() as doomed:
        monkeypatch.setenv("DOCKER_HOST", doomed.docker_host)
        with contextlib.closing(engines.open_client(engines.inspect_engine())) as client:
            threading.Timer(0.5, os.kill, (doomed.pid, signal.SIGKILL)).start()

            assert "engine" in expect_refusal(lambda: pull.pull_image(client, found, ignore_event)).message


def test_disk_full(monkeypatch: pytest.MonkeyPatch, registry: LocalRegistry, name: str) -> None:
    """A disk that is too small is reported before the pull with sizes; if it fills up during the pull, that is the
    message, and the pull succeeds after space was freed."""
    with make_scratch() as folder:
        disk = folder / "disk"
        disk.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "none", str(disk)], check=True)
        with start_engine(root=disk) as tight:
            monkeypatch.setenv("DOCKER_HOST", tight.docker_host)
            monkeypatch.setenv("DOCKER_CONFIG", str(tight.folder))
            image_parts.push_image(f"{registry.address}/{name}", image_parts.make_random_layers(4, 3 * MIB))
            seen = engines.inspect_engine()
            with contextlib.closing(engines.open_client(seen)) as client:
                found = registries.resolve_image(
                    [reference.parse_reference(f"{registry.address}/{name}")],
                    seen,
                    local_image.registry_credentials(client),
                )
                problem = local_image.check_space(found, seen)
                assert problem
                assert str(disk) in problem.message

                err = expect_refusal(lambda: pull.pull_image(client, found, ignore_event, every_s=0))
                assert "no space left on the disk" in err.message

                subprocess.run(["mount", "-o", "remount,size=64m", str(disk)], check=True)
                assert pull.pull_image(client, found, ignore_event).digest == found.digest
