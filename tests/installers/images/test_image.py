"""An image from a real registry into a real engine: found before, pulled by digest, taken up again, taken back."""

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
from installers.images import engine as engines
from installers.images import image, image_pull, pull_resume, reference
from installers.images import registry as registries
from installers.images.manifest import ResolvedImage
from installers.state.progress import Event
from tests.installers.images import image_parts
from tests.installers.images.engine_parts import Engine, Registry
from tests.installers.images.registry_faults import Fault, front

MIB = 1 << 20
MEMORY_MIB = 150


def quiet(event: Event) -> None:
    """Nobody listens."""


@pytest.fixture
def client(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Iterator[docker.DockerClient]:
    """A client of the session's engine, which is also the one that DOCKER_HOST names."""
    monkeypatch.setenv("DOCKER_HOST", engine.url)
    monkeypatch.setenv("DOCKER_CONFIG", str(engine.folder))
    with contextlib.closing(docker.from_env(version="auto")) as made:
        yield made


@pytest.fixture
def find(client: docker.DockerClient) -> Callable[[str], ResolvedImage]:
    """What a name leads to."""
    return lambda name: registries.resolve([reference.parse(name)], engines.look(), image.credentials(client))


@pytest.fixture
def hello(registry: Registry) -> str:
    """A reference to an image of three layers that nobody has pulled."""
    name = f"{registry.address}/envcheck/hello-{os.urandom(4).hex()}:1"
    image_parts.push(name, [image_parts.busybox(), *image_parts.random_layers(2, MIB)])
    return name


def test_pulled_by_digest(client: docker.DockerClient, find: Callable[[str], ResolvedImage], hello: str) -> None:
    """What was found is there after the pull under its digest and its tag, and can be run by that digest."""
    found = find(hello)
    assert image.here(client, found) is None

    there = image_pull.pull(client, found, quiet)

    assert there.digest == found.digest
    assert there.names == (hello, str(found.pinned))
    assert client.images.get(hello).id == there.image_id == found.image_id
    said = client.containers.run(str(found.pinned), ["echo", "it runs"], remove=True, network_mode="host")
    assert said == b"it runs\n"


def test_second_time(client: docker.DockerClient, find: Callable[[str], ResolvedImage], hello: str) -> None:
    """What is there is found there: by asking the registry, and without it by its name."""
    found = find(hello)
    there = image_pull.pull(client, found, quiet)

    again, named = image.here(client, found), image.named_here(client, [found.reference], engines.look())

    assert again
    assert again.image_id == there.image_id
    assert named
    assert (named.image_id, named.digest) == (there.image_id, found.digest)


def test_progress(client: docker.DockerClient, find: Callable[[str], ResolvedImage], hello: str) -> None:
    """The whole and each layer move forward only, and end complete."""
    found, events = find(hello), list[Event]()

    image_pull.pull(client, found, events.append)

    whole = [event.done for event in events if event.kind == "bytes"]
    assert whole == sorted(whole)
    assert whole[-1] == found.compressed_bytes
    ended = {event.text for event in events if event.kind == "layer" and event.text.endswith(" done")}
    assert ended == {f"{part.digest[7:19]} done" for part in found.layers}


def test_list_of_architectures(
    client: docker.DockerClient, find: Callable[[str], ResolvedImage], registry: Registry
) -> None:
    """Of a list of manifests this host's is taken, and what was pulled is known by the list's digest as well."""
    name = f"{registry.address}/envcheck/many"
    layers = [image_parts.busybox()]
    digests = {go: image_parts.push(f"{name}:{go}", layers, architecture=go) for go in ("amd64", "arm64")}
    listed = image_parts.push_list(f"{name}:1", digests)

    found = find(f"{name}:1")
    there = image_pull.pull(client, found, quiet)

    own = {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine]
    assert (found.digest, found.list_digest) == (digests[own], listed)
    assert client.images.get(there.image_id).attrs["Architecture"] == own
    assert find(f"{name}@{listed}").digest == found.digest


def test_what_another_pulled(client: docker.DockerClient, find: Callable[[str], ResolvedImage], hello: str) -> None:
    """An image that docker pull brought counts as there."""
    client.images.pull(hello)

    assert image.here(client, find(hello))


def test_under_another_name(client: docker.DockerClient, find: Callable[[str], ResolvedImage], hello: str) -> None:
    """An image that the engine has under another name alone is there, and called by its id: its own leads nowhere."""
    found = find(hello)
    own = image_pull.pull(client, found, quiet)
    client.images.get(hello).tag("somebody/else", "1")
    client.images.remove(hello)  # and with its tag its digest
    there = image.here(client, found)
    client.images.remove("somebody/else:1")

    assert container_facts._name(found.reference, own, found) == str(found.pinned)
    assert there and container_facts._name(found.reference, there, found) == found.image_id


def test_undo(client: docker.DockerClient, find: Callable[[str], ResolvedImage], hello: str) -> None:
    """What the pull brought goes, once; a second undo has nothing to do."""
    there = image_pull.pull(client, find(hello), quiet)

    assert image.undo(client, there.image_id, there.names) == "removed"
    assert image.undo(client, there.image_id, there.names) == "it is gone already"
    assert image.here(client, find(hello)) is None


def test_undo_leaves_others_names(
    client: docker.DockerClient, find: Callable[[str], ResolvedImage], hello: str
) -> None:
    """An image that somebody gave a name of their own meanwhile stays under that name."""
    there = image_pull.pull(client, find(hello), quiet)
    client.images.get(there.image_id).tag("somebody/own", "1")

    said = image.undo(client, there.image_id, there.names)

    assert "somebody/own:1" in said
    assert client.images.get("somebody/own:1").id == there.image_id
    client.images.remove("somebody/own:1")


def test_undo_while_it_is_used(client: docker.DockerClient, find: Callable[[str], ResolvedImage], hello: str) -> None:
    """An image that a container uses is not torn away: the container is named."""
    there = image_pull.pull(client, find(hello), quiet)
    user = client.containers.create(there.image_id, ["sleep", "1"])

    with pytest.raises(StepError) as caught:
        image.undo(client, there.image_id, there.names)

    assert "container" in caught.value.next_step
    user.remove()
    assert image.undo(client, there.image_id, there.names) == "removed"


def test_a_name_that_is_taken_stays(
    client: docker.DockerClient, find: Callable[[str], ResolvedImage], hello: str
) -> None:
    """The tag of an older image here is not moved to the new one, which is there by its digest."""
    before = image_pull.pull(client, find(hello), quiet)
    image_parts.push(hello, [image_parts.busybox()])

    there = image_pull.pull(client, find(hello), quiet)

    assert client.images.get(hello).id == before.image_id
    assert there.names == (str(find(hello).pinned),)


PULL = """
import contextlib, json, re, sys
from installers.images import engine, image, image_pull, reference, registry
seen = engine.look()
with contextlib.closing(engine.connect(seen)) as client:
    found = registry.resolve([reference.parse(sys.argv[1])], seen, image.credentials(client))
    there = image_pull.pull(client, found, lambda event: print(event.done, flush=True), every_s=0)
with open("/proc/self/status") as status:  # ru_maxrss begins with the memory of whoever started us
    used_kib = re.search(r"VmHWM:\\s+(\\d+)", status.read())[1]
print(json.dumps([there.image_id, int(used_kib) >> 10]))
"""


def test_on_a_terminal(engine: Engine, registry: Registry) -> None:
    """On a terminal the whole and the layers on their way are seen moving."""
    name = f"envcheck/seen-{os.urandom(4).hex()}:1"
    image_parts.push(f"{registry.address}/{name}", image_parts.random_layers(2, 2 * MIB))
    shown = (
        PULL.replace("lambda event: print(event.done, flush=True)", "screen.show")
        .replace(
            "with contextlib",
            "from installers.state import progress\nfrom installers.output.plan_text import Screen\n"
            "with Screen() as screen, contextlib",
        )
        .replace("    found =", "    screen.show(progress.Event('begin', 'the image'))\n    found =")
    )
    with front(registry.url, Fault("/blobs/", pace_s=0.02)) as between:
        argv = ["-c", shown, f"{between.address}/{name}"]
        child = pexpect.spawn(sys.executable, argv, env={**engine.environment, "TERM": "xterm"}, dimensions=(40, 160))

        child.expect(r"image [12] of 4 MiB", timeout=120)
        child.expect(r"[0-9a-f]{12} downloading [12] of 2 MiB", timeout=120)
        child.expect(pexpect.EOF, timeout=120)
    child.close()
    assert child.exitstatus == 0


def test_killed_and_taken_up(
    client: docker.DockerClient, find: Callable[[str], ResolvedImage], registry: Registry
) -> None:
    """After kill -9 in the middle of the last layer, the next run fetches that one alone, and leaves no trace of it."""
    name = f"envcheck/cut-{os.urandom(4).hex()}:1"
    image_parts.push(f"{registry.address}/{name}", image_parts.random_layers(4, MIB))
    with front(registry.url) as between:
        found = find(f"{between.address}/{name}")
        last = found.layers[-1].digest
        between.faults.append(Fault(last, cut_after=MIB // 2, hang=True))
        with subprocess.Popen(
            [sys.executable, "-c", PULL, f"{between.address}/{name}"], stdout=subprocess.PIPE
        ) as child:
            _until(lambda: pull_resume.kept(client, found) == 3)
            child.send_signal(signal.SIGKILL)
        between.faults.clear()
        between.sent.clear()

        image_pull.pull(client, found, quiet)

        blobs = {path.rpartition("/")[2] for path in between.sent if "/blobs/" in path}
        assert blobs == {last, found.image_id}
    assert image.here(client, found)
    assert not client.images.list(pull_resume.REPOSITORY)


def test_room_counts_what_is_kept(find: Callable[[str], ResolvedImage], hello: str) -> None:
    """An image that does not fit is refused with both figures; layers that are there already need no room."""
    found = find(hello)
    needs = image.needed_bytes(found)

    tight = engines.Engine("", root="/r", free_bytes=needs - 1)

    problem = image.room(found, tight)
    assert problem
    assert "/r" in problem.message
    assert image.room(found, engines.Engine("", free_bytes=needs)) is None
    assert image.room(found, engines.Engine("", free_bytes=None)) is None
    assert image.room(found, tight, kept=1) is None


def test_memory(engine: Engine, python_image: str) -> None:
    """The memory of a pull does not depend on the image's size: 84 MiB of a real one in less than 150 MiB."""
    argv = [sys.executable, "-c", PULL, python_image]

    done = subprocess.run(argv, env=engine.environment, capture_output=True, text=True, check=True)

    _, used_mib = json.loads(done.stdout.splitlines()[-1])
    assert used_mib < MEMORY_MIB


def _until(ready: Callable[[], bool], limit_s: float = 120) -> None:
    end = time.monotonic() + limit_s
    while not ready():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)
