"""`envcheck provision`, the command, when registry, disk or host fail before the pull and during it: clear words, the
documented exit code, a true journal, nothing lost, and the same command again comes to the end."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.installers.fault_parts import MIB, Shelf, clear, good, lean, meanwhile, resize, tight_engine, untouched, why
from tests.installers.images.engine_parts import Engine, Registry, free_port
from tests.installers.images.registry_faults import Fault, Front, front
from tests.installers.images.test_image_faults import NOT_HERE
from tests.installers.provision_helpers import serving, until, wheel
from tests.installers.test_boxed import Box
from tests.tiers import thin_out

pytestmark = pytest.mark.real

GONE = b'{"errors": [{"code": "MANIFEST_UNKNOWN"}]}'
# What the registry does to a lookup → what is said, what to do.
LOOKUPS = {
    "401": (Fault("^/v2/", status=401), "wants credentials", "docker login 127.0.0.1"),
    "404": (Fault("/manifests/", status=404), "has no envcheck/faulty with tag", "--registry"),
    "cut": (Fault("/manifests/", cut_after=10), "cut the connection", "network and proxy"),
    "changed": (Fault("/blobs/", change=lambda body: body + b" "), "its contents were changed", "--registry"),
}
# The same of a pull that the lookup let begin; {last} is the last layer's digest.
PULLS = {
    "401": (Fault("/v2/", status=401), "wants credentials", "docker login 127.0.0.1"),
    "404": (Fault("/manifests/", status=404, body=GONE), "does not have it any more", "--registry"),
    "cut in mid-layer": (Fault("{last}", cut_after=MIB), "broke off", "--registry"),
    "changed digest": (Fault("/manifests/", change=lambda body: body + b" "), "damaged", "--registry"),
    "damaged layer": (Fault("{last}", change=lambda body: body[:-9] + b"x" + body[-8:]), "damaged", "--registry"),
}


@pytest.fixture(scope="module")
def tight(python_image: str) -> Iterator[Engine]:
    with tight_engine(python_image) as made:
        yield made


@pytest.fixture
def between(registry: Registry) -> Iterator[Front]:
    """The registry through a proxy, without faults so far."""
    with front(registry.url) as made:
        yield made


@pytest.fixture
def shelf(registry: Registry, between: Front) -> Shelf:
    return Shelf(registry, between)


@pytest.fixture
def box(tight: Engine, shelf: Shelf, tmp_path: Path) -> Iterator[Box]:
    made = lean(Box(tight, shelf.image, "none", tmp_path))
    yield made
    tight.docker("rm", "-f", made.name, check=False)


@pytest.mark.parametrize(("fault", "words", "next_words"), thin_out(2, LOOKUPS.values()), ids=LOOKUPS)
def test_refused_beforehand(box: Box, between: Front, fault: Fault, words: str, next_words: str) -> None:
    """What a lookup finds wrong refuses the plan, exit 1, before anything is done; afterwards the plan is as ever."""
    between.faults.append(fault)
    done = box.run("--yes")
    between.faults.clear()

    clear(done, 1, words, next_words)
    untouched(box)
    assert box.run("--dry-run").returncode == 0


def test_registry_down(box: Box, shelf: Shelf) -> None:
    """A registry that nobody listens at is named, and the next one that was given is asked."""
    recipe, down = box.folder / "recipes" / "boxed.toml", f"127.0.0.1:{free_port()}"
    recipe.write_text(recipe.read_text().replace(shelf.image, f"{down}/{shelf.name}"))

    clear(box.run("--yes"), 1, f"{down} cannot be reached: it refuses connections", "--registry")
    untouched(box)
    assert box.run("--yes", "--registry", shelf.between.address).returncode == 0


def test_wrong_architecture(box: Box, shelf: Shelf) -> None:
    """An image for another machine is refused before the pull."""
    shelf.push(NOT_HERE)

    clear(box.run("--yes"), 1, "and this host's engine is", "--registry")
    untouched(box)
    shelf.push()
    good(box)


@pytest.mark.parametrize(("fault", "words", "next_words"), thin_out(2, PULLS.values()), ids=PULLS)
def test_pull_that_fails(box: Box, shelf: Shelf, fault: Fault, words: str, next_words: str) -> None:
    """What fails during the pull is exit 4; the journal has the reason, no container is there, and the same command
    comes to the end when the fault is gone."""
    fault.match = fault.match.replace("{last}", shelf.last)
    fault.unless_header = "python-requests"  # the lookup's; the engine has another
    shelf.between.faults.append(fault)
    done = box.run("--yes")
    shelf.between.faults.clear()

    clear(done, 4, words, next_words)
    assert f"(journal: {box.notes}" in done.stderr
    assert [event for step, event in box.events() if step == "image"] == ["begun", "made", "failed"]
    assert words in why(box)
    assert box.name not in box.engine.docker("ps", "-a", "--format", "{{.Names}}").stdout
    good(box)


def test_locked_to_what_the_tag_was(box: Box, shelf: Shelf, tmp_path: Path) -> None:
    """A tag that leads elsewhere by now: a lock still brings its own digest; when the registry has that no more, exit 1
    names it, and nothing else is put in its place."""
    lock = tmp_path / "envcheck.lock"
    assert box.run("--yes", "--lock", str(lock)).returncode == 0
    assert box.run("--undo", "--yes").returncode == 0
    shelf.layers = shelf.layers[:1]
    assert shelf.push() != shelf.digest
    shelf.between.faults.append(Fault(f"/manifests/{shelf.digest}", status=404))
    gone = box.run("--yes", "--locked", str(lock))
    shelf.between.faults.clear()
    done = box.run("--yes", "--locked", str(lock))

    clear(gone, 1, shelf.digest, "")
    assert done.returncode == 0, done.stderr
    assert shelf.digest in box.engine.docker("inspect", "-f", "{{.Config.Image}}", box.name).stdout


def test_small_disk(box: Box) -> None:
    """A disk that would not hold the image is refused with both figures."""
    resize(box.engine.root, 600)
    done = box.run("--yes")
    resize(box.engine.root, 4000)

    clear(done, 1, f"at {box.engine.root}, and 0.6 GiB are free there", "docker system prune")
    untouched(box)


def fill(box: Box, child: subprocess.Popen[str]) -> Callable[[], object]:
    resize(box.engine.root, 1)
    return lambda: resize(box.engine.root, 4000)


def test_disk_full_under_pip(tight: Engine, python_image: str, tmp_path: Path) -> None:
    """A disk that fills up while a wheel comes into the container: exit 4 says so; with room the next run goes on."""
    wheel(tmp_path / "index", "first", "1.0")
    wheel(tmp_path / "index", "second", "2.1", {"second/__init__.py": os.urandom(4 * MIB).hex().join(("x='", "'"))})
    with serving(tmp_path / "index") as index:
        box = Box(tight, python_image, index.url, tmp_path)
        index.mode = "slow"

        def fill_up(child: subprocess.Popen[str]) -> None:
            until(lambda: child.poll() is not None or "pip" in tight.docker("top", box.name).stdout)
            resize(tight.root, 1)
            index.mode = ""

        try:
            done = meanwhile(box, ("packages", "begun"), fill_up)
        finally:
            resize(tight.root, 4000)

        clear(done, 4, "the disk is full", "make room")
        assert box.events()[-1] == ("packages", "failed")
        good(box)
        tight.docker("rm", "-f", box.name)


def take_name(box: Box, child: subprocess.Popen[str]) -> Callable[[], object]:
    image = box.engine.docker("images", "-q").stdout.split()[0]
    box.engine.docker("create", "--name", box.name, image, "true")
    return lambda: box.engine.docker("rm", box.name)


def take_source(box: Box, child: subprocess.Popen[str]) -> Callable[[], object]:
    (box.folder / "tools").rmdir()
    return (box.folder / "tools").mkdir


@pytest.mark.parametrize(
    ("deed", "code", "words", "last"),
    thin_out(
        1,
        (
            (fill, 4, "the disk filled up", ("image", "failed")),
            (take_name, 1, "a container that envcheck did not make has the name", ("container", "failed")),
            (take_source, 4, "tools is not on the host of the engine", ("container", "failed")),
        ),
    ),
)
def test_while_the_image_comes(
    box: Box,
    shelf: Shelf,
    deed: Callable[[Box, subprocess.Popen[str]], Callable[[], object]],
    code: int,
    words: str,
    last: tuple[str, str],
) -> None:
    """A slow registry is waited for; what changes meanwhile is said and noted, nothing of a stranger's is touched or
    made; mended, it goes on."""
    mend: list[Callable[[], object]] = []
    shelf.between.faults.append(Fault(shelf.last, pace_s=0.02, unless_header="python-requests"))
    try:
        done = meanwhile(box, ("image", "begun"), lambda child: mend.append(deed(box, child)))
        there = (box.folder / "tools").exists()
    finally:
        mend[0]()

    clear(done, code, words)
    assert box.events()[-1] == last
    assert words in why(box)
    assert there == (deed is not take_source)
    good(box)


@pytest.mark.parametrize(
    ("settings", "code"),
    thin_out(
        2,
        (
            ('{"credsStore": "nobody"}', 0),
            ("{torn", 0),
            ('{"auths": 7}', 1),
            ("[1]", 1),
            ('{"auths": {"h": {"auth": "!"}}}', 1),
        ),
    ),
)
def test_dockers_own_settings(box: Box, settings: str, code: int) -> None:
    """A helper for logins that is not there is as good as none; settings that nobody understands are named, exit 1."""
    own = box.folder / "docker"
    own.mkdir()
    (own / "config.json").write_text(settings)
    env = {**box.variables, "DOCKER_CONFIG": str(own)}
    done = subprocess.run(box.argv("--yes"), cwd=box.folder, env=env, capture_output=True, text=True, timeout=120)

    assert done.returncode == code, done.stderr
    assert "warn" not in done.stderr
    if code:
        clear(done, code, f"docker's own settings {own / 'config.json'} cannot be understood", "docker login")
        untouched(box)


def test_interrupted_pull(box: Box, shelf: Shelf) -> None:
    """Ctrl-C during the pull: exit 130, noted, the engine stops fetching, and the next run comes to the end."""
    shelf.between.faults.append(Fault(shelf.last, pace_s=0.2, unless_header="python-requests"))

    def stop(child: subprocess.Popen[str]) -> None:
        until(lambda: child.poll() is not None or any(shelf.last in path for path in list(shelf.between.sent)))
        child.send_signal(signal.SIGINT)

    done = meanwhile(box, ("image", "begun"), stop)
    time.sleep(0.6)  # three pieces at the front's pace
    fetched = dict(shelf.between.sent)
    time.sleep(0.6)

    assert done.returncode == 130, done.stderr
    assert done.stderr.splitlines()[-1] == "envcheck: interrupted"
    assert box.events()[-1] == ("image", "interrupted")
    assert shelf.between.sent == fetched
    shelf.between.faults.clear()
    good(box)
