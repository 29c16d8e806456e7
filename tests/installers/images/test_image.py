"""Images from a real registry in a real engine: look up, pull by digest, resume, remove."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import docker
import pexpect
import pytest

from envcheck.core.errors import StepError
from installers import container_facts
from installers.images import docker_engine as engines
from installers.images import local_image, pull, pull_resume, reference
from installers.images import registry as registries
from installers.images.manifest import ResolvedImage
from installers.state.progress import ProgressEvent
from tests.installers.images import image_parts
from tests.installers.images.engine_parts import DockerEngine, LocalRegistry
from tests.installers.images.registry_faults import RegistryFault, start_proxy

MIB = 1 << 20
MEMORY_MIB = 150


def ignore_event(event: ProgressEvent) -> None:
    """Ignore progress."""


@pytest.fixture
def client(engine: DockerEngine, monkeypatch: pytest.MonkeyPatch) -> Iterator[docker.DockerClient]:
    """A client of the session's engine, which is also in DOCKER_HOST."""
    monkeypatch.setenv("DOCKER_HOST", engine.docker_host)
    monkeypatch.setenv("DOCKER_CONFIG", str(engine.folder))
    with contextlib.closing(docker.from_env(version="auto")) as made:
        yield made


@pytest.fixture
def find(client: docker.DockerClient) -> Callable[[str], ResolvedImage]:
    """Return a function that resolves an image name."""
    return lambda name: registries.resolve_image(
        [reference.parse_reference(name)], engines.inspect_engine(), local_image.registry_credentials(client)
    )


@pytest.fixture
def hello(registry: LocalRegistry) -> str:
    """A reference to an image of three layers that was never pulled."""
    name = f"{registry.address}/envcheck/hello-{os.urandom(4).hex()}:1"
    image_parts.push_image(name, [image_parts.make_busybox(), *image_parts.make_random_layers(2, MIB)])
    return name


def test_pulled_by_digest(client: docker.DockerClient, find: Callable[[str], ResolvedImage], hello: str) -> None:
    """After a pull the image has its digest and tag, and can be run by the digest."""
    found = find(hello)
    assert local_image.find_resolved(client, found) is None

    there = pull.pull_image(client, found, ignore_event)

    assert there.digest == found.digest
    assert there.names == (hello, str(found.pinned_reference))
    assert client.images.get(hello).id == there.image_id == found.image_id
    said = client.containers.run(str(found.pinned_reference), ["echo", "it runs"], remove=True, network_mode="host")
    assert said == b"it runs\n"


def test_second_time(client: docker.DockerClient, find: Callable[[str], ResolvedImage], hello: str) -> None:
    """An existing image is found, by asking the registry and by its name alone."""
    found = find(hello)
    there = pull.pull_image(client, found, ignore_event)

    again, named = (
        local_image.find_resolved(client, found),
        local_image.find_named(client, [found.reference], engines.inspect_engine()),
    )

    assert again
    assert again.image_id == there.image_id
    assert named
    assert (named.image_id, named.digest) == (there.image_id, found.digest)


def test_progress(client: docker.DockerClient, find: Callable[[str], ResolvedImage], hello: str) -> None:
    """The progress of the whole and of each layer only increases, and ends complete."""
    found, events = find(hello), list[ProgressEvent]()

    pull.pull_image(client, found, events.append)

    whole = [event.done for event in events if event.kind == "bytes"]
    assert whole == sorted(whole)
    assert whole[-1] == found.compressed_bytes
    ended = {event.layer for event in events if event.kind == "layer" and event.over}
    assert ended == {part.digest[7:19] for part in found.layers}


def test_list_of_architectures(
    client: docker.DockerClient, find: Callable[[str], ResolvedImage], registry: LocalRegistry
) -> None:
    """From a manifest list the host's image is chosen, and the pulled image is also found by the list's digest."""
    name = f"{registry.address}/envcheck/many"
    layers = [image_parts.make_busybox()]
    digests = {go: image_parts.push_image(f"{name}:{go}", layers, architecture=go) for go in ("amd64", "arm64")}
    listed = image_parts.push_manifest_list(f"{name}:1", digests)

    found = find(f"{name}:1")
    there = pull.pull_image(client, found, ignore_event)

    own = {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine]
    assert (found.digest, found.list_digest) == (digests[own], listed)
    assert client.images.get(there.image_id).attrs["Architecture"] == own
    assert find(f"{name}@{listed}").digest == found.digest


def test_what_another_pulled(client: docker.DockerClient, find: Callable[[str], ResolvedImage], hello: str) -> None:
    """An image pulled with docker pull is found."""
    client.images.pull(hello)

    assert local_image.find_resolved(client, find(hello))


def test_under_another_name(client: docker.DockerClient, find: Callable[[str], ResolvedImage], hello: str) -> None:
    """An image that exists only under another name is found, and named by its id."""
    found = find(hello)
    own = pull.pull_image(client, found, ignore_event)
    client.images.get(hello).tag("somebody/else", "1")
    client.images.remove(hello)  # and with its tag its digest
    there = local_image.find_resolved(client, found)
    client.images.remove("somebody/else:1")

    assert container_facts._pinned_name(found.reference, own, found) == str(found.pinned_reference)
    assert there and container_facts._pinned_name(found.reference, there, found) == found.image_id


def test_undo(client: docker.DockerClient, find: Callable[[str], ResolvedImage], hello: str) -> None:
    """An undo removes what the pull added; a second undo does nothing."""
    there = pull.pull_image(client, find(hello), ignore_event)

    assert local_image.remove_image(client, there.image_id, there.names) == "removed"
    assert local_image.remove_image(client, there.image_id, there.names) == "already removed"
    assert local_image.find_resolved(client, find(hello)) is None


def test_undo_leaves_others_names(
    client: docker.DockerClient, find: Callable[[str], ResolvedImage], hello: str
) -> None:
    """An image that was given another name in the meantime stays under that name."""
    there = pull.pull_image(client, find(hello), ignore_event)
    client.images.get(there.image_id).tag("somebody/own", "1")

    said = local_image.remove_image(client, there.image_id, there.names)

    assert "somebody/own:1" in said
    assert client.images.get("somebody/own:1").id == there.image_id
    client.images.remove("somebody/own:1")


def test_undo_while_it_is_used(client: docker.DockerClient, find: Callable[[str], ResolvedImage], hello: str) -> None:
    """An image in use is not removed, and the error names the container."""
    there = pull.pull_image(client, find(hello), ignore_event)
    user = client.containers.create(there.image_id, ["sleep", "1"])

    with pytest.raises(StepError) as caught:
        local_image.remove_image(client, there.image_id, there.names)

    assert "container" in caught.value.next_step
    user.remove()
    assert local_image.remove_image(client, there.image_id, there.names) == "removed"


def test_a_name_that_is_taken_stays(
    client: docker.DockerClient, find: Callable[[str], ResolvedImage], hello: str
) -> None:
    """A tag of an older local image is not moved to the new one, which is available by digest."""
    before = pull.pull_image(client, find(hello), ignore_event)
    image_parts.push_image(hello, [image_parts.make_busybox()])

    there = pull.pull_image(client, find(hello), ignore_event)

    assert client.images.get(hello).id == before.image_id
    assert there.names == (str(find(hello).pinned_reference),)


PULL = """
import contextlib, json, re, sys
from installers.images import docker_engine, local_image, pull, reference, registry
seen = docker_engine.inspect_engine()
with contextlib.closing(docker_engine.open_client(seen)) as client:
    wanted = [reference.parse_reference(sys.argv[1])]
    found = registry.resolve_image(wanted, seen, local_image.registry_credentials(client))
    there = pull.pull_image(client, found, lambda event: print(event.done, flush=True), every_s=0)
with open("/proc/self/status") as status:  # ru_maxrss begins with the memory of whoever started us
    used_kib = re.search(r"VmHWM:\\s+(\\d+)", status.read())[1]
print(json.dumps([there.image_id, int(used_kib) >> 10]))
"""


def test_on_a_terminal(engine: DockerEngine, registry: LocalRegistry) -> None:
    """On a terminal the progress of the whole and of the current layers is shown."""
    name = f"envcheck/seen-{os.urandom(4).hex()}:1"
    image_parts.push_image(f"{registry.address}/{name}", image_parts.make_random_layers(2, 2 * MIB))
    shown = (
        PULL.replace("lambda event: print(event.done, flush=True)", "screen.show_event")
        .replace(
            "with contextlib",
            "from installers.state import progress\nfrom installers.output.plan_text import ProgressScreen\n"
            "with ProgressScreen() as screen, contextlib",
        )
        .replace("    found =", "    screen.show_event(progress.ProgressEvent('begin', 'the image'))\n    found =")
    )
    with start_proxy(registry.base_url, RegistryFault("/blobs/", pace_s=0.02)) as between:
        argv = ["-c", shown, f"{between.host_port}/{name}"]
        child = pexpect.spawn(
            sys.executable, argv, env={**engine.child_environment, "TERM": "xterm"}, dimensions=(40, 160)
        )

        child.expect(r"image [12] of 4 MiB", timeout=120)
        child.expect(r"[0-9a-f]{12} downloading [12] of 2 MiB", timeout=120)
        child.expect(pexpect.EOF, timeout=120)
    child.close()
    assert child.exitstatus == 0


def test_killed_and_taken_up(
    client: docker.DockerClient, find: Callable[[str], ResolvedImage], registry: LocalRegistry
) -> None:
    """After kill -9 during the last layer, the next run fetches only that one and leaves no trace."""
    name = f"envcheck/cut-{os.urandom(4).hex()}:1"
    image_parts.push_image(f"{registry.address}/{name}", image_parts.make_random_layers(4, MIB))
    with start_proxy(registry.base_url) as between:
        found = find(f"{between.host_port}/{name}")
        last = found.layers[-1].digest
        between.faults.append(RegistryFault(last, cut_after=MIB // 2, hang=True))
        with subprocess.Popen(
            [sys.executable, "-c", PULL, f"{between.host_port}/{name}"], stdout=subprocess.PIPE
        ) as child:
            _wait_until(lambda: pull_resume.count_kept_layers(client, found) == 3)
            child.send_signal(signal.SIGKILL)
        between.faults.clear()
        between.sent.clear()

        pull.pull_image(client, found, ignore_event)

        blobs = {path.rpartition("/")[2] for path in between.sent if "/blobs/" in path}
        assert blobs == {last, found.image_id}
    assert local_image.find_resolved(client, found)
    assert not client.images.list(pull_resume.REPOSITORY)


def test_room_counts_what_is_kept(find: Callable[[str], ResolvedImage], hello: str) -> None:
    """An image that does not fit is refused with both sizes; existing layers need no space."""
    found = find(hello)
    needs = local_image.needed_bytes(found)

    tight = engines.DockerEngine("", root="/r", free_bytes=needs - 1)

    problem = local_image.check_space(found, tight)
    assert problem
    assert "/r" in problem.message
    assert local_image.check_space(found, engines.DockerEngine("", free_bytes=needs)) is None
    assert local_image.check_space(found, engines.DockerEngine("", free_bytes=None)) is None
    assert local_image.check_space(found, tight, kept=1) is None


def test_memory(engine: DockerEngine, python_image: str) -> None:
    """The memory of a pull does not depend on the image's size: 84 MiB of a real one need less than 150 MiB."""
    argv = [sys.executable, "-c", PULL, python_image]

    done = subprocess.run(argv, env=engine.child_environment, capture_output=True, text=True, check=True)

    _, used_mib = json.loads(done.stdout.splitlines()[-1])
    assert used_mib < MEMORY_MIB


def _wait_until(ready: Callable[[], bool], limit_s: float = 120) -> None:
    end = time.monotonic() + limit_s
    while not ready():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)
