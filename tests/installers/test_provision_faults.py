"""`envcheck provision` when registry, disk or host fail before and during a pull: clear messages, the documented exit
code, a correct journal, nothing lost, and the same command succeeds afterwards."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.installers.fault_parts import (
    MIB,
    ProxiedImage,
    check_message,
    check_recovery,
    check_untouched,
    read_reason,
    run_meanwhile,
    set_free_space,
    start_tight_engine,
    write_lean_recipe,
)
from tests.installers.images.engine_parts import DockerEngine, LocalRegistry, find_free_port
from tests.installers.images.registry_faults import FaultyProxy, RegistryFault, start_proxy
from tests.installers.images.test_image_faults import NOT_HERE
from tests.installers.provision_helpers import serve_index, wait_until, write_wheel
from tests.installers.test_container_provision import ContainerCommand
from tests.tiers import thin_out

pytestmark = pytest.mark.real

GONE = b'{"errors": [{"code": "MANIFEST_UNKNOWN"}]}'
# What the registry does to a lookup → what is said, what to do.
LOOKUPS = {
    "401": (RegistryFault("^/v2/", status=401), "requires credentials", "run `docker login 127.0.0.1:"),
    "404": (RegistryFault("/manifests/", status=404), "not found on 127.0.0.1", "--registry"),
    "cut": (RegistryFault("/manifests/", cut_after=10), "closed the connection", "network and proxy"),
    "changed": (
        RegistryFault("/blobs/", change=lambda body: body + b" "),
        "the registry returned content that does not match sha256:",
        "--registry",
    ),
}
# The same of a pull that the lookup let begin; {last} is the last layer's digest.
PULLS = {
    "401": (RegistryFault("/v2/", status=401), "requires credentials", "run `docker login 127.0.0.1:"),
    "404": (RegistryFault("/manifests/", status=404, body=GONE), "the registry no longer has this image", "--registry"),
    "cut in mid-layer": (RegistryFault("{last}", cut_after=MIB), "connection lost", "--registry"),
    "changed digest": (
        RegistryFault("/manifests/", change=lambda body: body + b" "),
        "the downloaded data is corrupt",
        "--registry",
    ),
    "damaged layer": (
        RegistryFault("{last}", change=lambda body: body[:-9] + b"x" + body[-8:]),
        "the downloaded data is corrupt",
        "--registry",
    ),
}


@pytest.fixture(scope="module")
def tight(python_image: str) -> Iterator[DockerEngine]:
    with start_tight_engine(python_image) as made:
        yield made


@pytest.fixture
def between(registry: LocalRegistry) -> Iterator[FaultyProxy]:
    """The registry behind a proxy, without faults."""
    with start_proxy(registry.base_url) as made:
        yield made


@pytest.fixture
def shelf(registry: LocalRegistry, between: FaultyProxy) -> ProxiedImage:
    return ProxiedImage(registry, between)


@pytest.fixture
def box(tight: DockerEngine, shelf: ProxiedImage, tmp_path: Path) -> Iterator[ContainerCommand]:
    made = write_lean_recipe(ContainerCommand(tight, shelf.image_name, "none", tmp_path))
    yield made
    tight.run_docker("rm", "-f", made.name, check=False)


@pytest.mark.parametrize(("fault", "words", "next_words"), thin_out(2, LOOKUPS.values()), ids=LOOKUPS)
def test_refused_beforehand(
    box: ContainerCommand, between: FaultyProxy, fault: RegistryFault, words: str, next_words: str
) -> None:
    """A failed look-up blocks the plan with exit code 1 before anything is done; afterwards the plan is unchanged."""
    between.faults.append(fault)
    done = box.run_command("--yes")
    between.faults.clear()

    check_message(done, 1, words, next_words)
    check_untouched(box)
    assert box.run_command("--dry-run").returncode == 0


def test_registry_down(box: ContainerCommand, shelf: ProxiedImage) -> None:
    """A registry that is down is named, and the next one given is used."""
    recipe, down = box.folder / "recipes" / "boxed.toml", f"127.0.0.1:{find_free_port()}"
    recipe.write_text(recipe.read_text().replace(shelf.image_name, f"{down}/{shelf.name}"))

    check_message(box.run_command("--yes"), 1, f"cannot reach {down}: connection refused", "--registry")
    check_untouched(box)
    assert box.run_command("--yes", "--registry", shelf.between.host_port).returncode == 0


def test_wrong_architecture(box: ContainerCommand, shelf: ProxiedImage) -> None:
    """An image for another architecture is refused before the pull."""
    shelf.push_image(NOT_HERE)

    check_message(box.run_command("--yes"), 1, "this host's container engine is", "--registry")
    check_untouched(box)
    shelf.push_image()
    check_recovery(box)


@pytest.mark.parametrize(("fault", "words", "next_words"), thin_out(2, PULLS.values()), ids=PULLS)
def test_pull_that_fails(
    box: ContainerCommand, shelf: ProxiedImage, fault: RegistryFault, words: str, next_words: str
) -> None:
    """A failed pull is exit code 4; the journal has the reason, there is no container, and the same command succeeds
    without the fault."""
    fault.match = fault.match.replace("{last}", shelf.last_digest)
    fault.unless_header = "python-requests"  # the lookup's; the engine has another
    shelf.between.faults.append(fault)
    done = box.run_command("--yes")
    shelf.between.faults.clear()

    check_message(done, 4, words, next_words)
    assert f"(journal: {box.notes_folder}" in done.stderr
    assert [event for step, event in box.list_events() if step == "image"] == ["begun", "made", "failed"]
    assert words in read_reason(box)
    assert box.name not in box.engine.run_docker("ps", "-a", "--format", "{{.Names}}").stdout
    check_recovery(box)


def test_locked_to_what_the_tag_was(box: ContainerCommand, shelf: ProxiedImage, tmp_path: Path) -> None:
    """If the tag has moved, a lock still pulls its own digest; if the registry no longer has it, exit code 1 names it,
    and nothing else is used instead."""
    lock = tmp_path / "envcheck.lock"
    assert box.run_command("--yes", "--lock", str(lock)).returncode == 0
    assert box.run_command("--undo", "--yes").returncode == 0
    shelf.layers = shelf.layers[:1]
    assert shelf.push_image() != shelf.digest
    shelf.between.faults.append(RegistryFault(f"/manifests/{shelf.digest}", status=404))
    gone = box.run_command("--yes", "--locked", str(lock))
    shelf.between.faults.clear()
    done = box.run_command("--yes", "--locked", str(lock))

    check_message(gone, 1, shelf.digest, "")
    assert done.returncode == 0, done.stderr
    assert shelf.digest in box.engine.run_docker("inspect", "-f", "{{.Config.Image}}", box.name).stdout


def test_small_disk(box: ContainerCommand) -> None:
    """A disk too small for the image is refused with both sizes."""
    set_free_space(box.engine.root, 600)
    done = box.run_command("--yes")
    set_free_space(box.engine.root, 4000)

    check_message(done, 1, f"at {box.engine.root}; 0.6 GiB free", "docker system prune")
    check_untouched(box)


def fill_disk(box: ContainerCommand, child: subprocess.Popen[str]) -> Callable[[], object]:
    set_free_space(box.engine.root, 1)
    return lambda: set_free_space(box.engine.root, 4000)


def test_disk_full_under_pip(tight: DockerEngine, python_image: str, tmp_path: Path) -> None:
    """A disk that fills up while a wheel is copied to the container: exit code 4; with free space the next run
    continues."""
    write_wheel(tmp_path / "index", "first", "1.0")
    write_wheel(
        tmp_path / "index", "second", "2.1", {"second/__init__.py": os.urandom(4 * MIB).hex().join(("x='", "'"))}
    )
    with serve_index(tmp_path / "index") as index:
        box = ContainerCommand(tight, python_image, index.base_url, tmp_path)
        index.mode = "slow"

        def fill_up(child: subprocess.Popen[str]) -> None:
            wait_until(lambda: child.poll() is not None or "pip" in tight.run_docker("top", box.name).stdout)
            set_free_space(tight.root, 1)
            index.mode = ""

        try:
            done = run_meanwhile(box, ("packages", "begun"), fill_up)
        finally:
            set_free_space(tight.root, 4000)

        check_message(done, 4, "no space left on the disk", "free disk space")
        assert box.list_events()[-1] == ("packages", "failed")
        check_recovery(box)
        tight.run_docker("rm", "-f", box.name)


def take_name(box: ContainerCommand, child: subprocess.Popen[str]) -> Callable[[], object]:
    image = box.engine.run_docker("images", "-q").stdout.split()[0]
    box.engine.run_docker("create", "--name", box.name, image, "true")
    return lambda: box.engine.run_docker("rm", box.name)


def take_source(box: ContainerCommand, child: subprocess.Popen[str]) -> Callable[[], object]:
    (box.folder / "tools").rmdir()
    return (box.folder / "tools").mkdir


@pytest.mark.parametrize(
    ("deed", "code", "words", "last"),
    thin_out(
        1,
        (
            (fill_disk, 4, "no space left on the disk", ("image", "failed")),
            (take_name, 1, "is in use by a container that envcheck did not create", ("container", "failed")),
            (take_source, 4, "tools does not exist on the engine's host", ("container", "failed")),
        ),
    ),
)
def test_while_the_image_comes(
    box: ContainerCommand,
    shelf: ProxiedImage,
    deed: Callable[[ContainerCommand, subprocess.Popen[str]], Callable[[], object]],
    code: int,
    words: str,
    last: tuple[str, str],
) -> None:
    """A slow registry is waited for; changes meanwhile are reported and recorded, nothing foreign is changed, and the
    next run continues."""
    mend: list[Callable[[], object]] = []
    shelf.between.faults.append(RegistryFault(shelf.last_digest, pace_s=0.02, unless_header="python-requests"))
    try:
        done = run_meanwhile(box, ("image", "begun"), lambda child: mend.append(deed(box, child)))
        there = (box.folder / "tools").exists()
    finally:
        mend[0]()

    check_message(done, code, words)
    assert box.list_events()[-1] == last
    assert words in read_reason(box)
    assert there == (deed is not take_source)
    check_recovery(box)


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
def test_dockers_own_settings(box: ContainerCommand, settings: str, code: int) -> None:
    """A missing credential helper is ignored; an invalid configuration file is named, exit code 1."""
    own = box.folder / "docker"
    own.mkdir()
    (own / "config.json").write_text(settings)
    env = {**box.child_variables, "DOCKER_CONFIG": str(own)}
    done = subprocess.run(box.make_argv("--yes"), cwd=box.folder, env=env, capture_output=True, text=True, timeout=120)

    assert done.returncode == code, done.stderr
    assert "warn" not in done.stderr
    if code:
        check_message(done, code, f"cannot parse docker's configuration file {own / 'config.json'}", "docker login")
        check_untouched(box)


def test_interrupted_pull(box: ContainerCommand, shelf: ProxiedImage) -> None:
    """Ctrl-C during the pull: exit code 130, recorded, the engine stops fetching, and the next run succeeds."""
    shelf.between.faults.append(RegistryFault(shelf.last_digest, pace_s=0.2, unless_header="python-requests"))

    def stop(child: subprocess.Popen[str]) -> None:
        wait_until(
            lambda: child.poll() is not None or any(shelf.last_digest in path for path in list(shelf.between.sent))
        )
        child.send_signal(signal.SIGINT)

    done = run_meanwhile(box, ("image", "begun"), stop)
    time.sleep(0.6)  # three pieces at the front's pace
    fetched = dict(shelf.between.sent)
    time.sleep(0.6)

    assert done.returncode == 130, done.stderr
    assert done.stderr.splitlines()[-1] == "envcheck: interrupted"
    assert box.list_events()[-1] == ("image", "interrupted")
    assert shelf.between.sent == fetched
    shelf.between.faults.clear()
    check_recovery(box)
