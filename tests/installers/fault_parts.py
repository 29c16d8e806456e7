"""Helpers for tests of failures: a small recipe, an engine with a disk of its own, and the form of a good error."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.installers.images import image_parts
from tests.installers.images.engine_parts import DockerEngine, LocalRegistry, make_scratch, start_engine
from tests.installers.images.registry_faults import FaultyProxy
from tests.installers.provision_helpers import wait_until
from tests.installers.test_container_provision import ContainerCommand

MIB = 1 << 20
PACKAGES = re.compile(r"\[\[packages\]\][^\[]*")
REPOSITORY = "envcheck/faulty"  # one for all: its registry then has the large layer already


def check_message(done: subprocess.CompletedProcess[str], code: int, words: str, next_words: str = "") -> None:
    """Check the exit code, the message, the next step, and that no Python details are shown."""
    said, next_step = done.stderr.splitlines()[-2:]
    assert done.returncode == code, done.stdout + done.stderr
    assert said.startswith("envcheck: ")
    assert words in said, said
    assert next_step.startswith("  next: ")
    assert next_words in next_step, next_step
    assert not re.search(r"Traceback|Error\(|HTTPConnection|object at 0x|bug in envcheck", done.stderr)


def check_untouched(box: ContainerCommand) -> None:
    """Check that neither records nor a container nor a folder were created."""
    assert not box.notes_folder.exists()
    assert not (box.folder / "data").exists()
    assert box.engine.run_docker("ps", "-aq", "--filter", f"name=^{box.name}$").stdout == ""


def read_reason(box: ContainerCommand) -> str:
    """Return the reason in the last line of the journal."""
    return str(json.loads((box.notes_folder / "journal.jsonl").read_text().splitlines()[-1]).get("why"))


def check_recovery(box: ContainerCommand) -> None:
    """Check that without the fault the same command succeeds, and then finds nothing to do."""
    done, again = box.run_command("--yes"), box.run_command("--yes", "--json")

    assert done.returncode == 0, done.stdout + done.stderr
    assert box.list_events()[-1] == ("proof", "done")
    assert box.run_inside("true") == ""
    assert json.loads(again.stdout)["performed"] == []


def write_lean_recipe(box: ContainerCommand) -> ContainerCommand:
    """Write a recipe without packages that mounts a tool of the host: faults of registries and containers need no
    pip."""
    tool = box.folder / "tools"
    tool.mkdir()
    path = box.folder / "recipes" / "boxed.toml"
    text = re.sub(r"import first.*'1.0'", "pass", PACKAGES.sub("", path.read_text()))
    path.write_text(text.replace("mounts = [", f'mounts = [{{ source = "{tool}", target = "/tools" }}, '))
    return box


def run_meanwhile(
    box: ContainerCommand, begun: tuple[str, str], deed: Callable[[subprocess.Popen[str]], object]
) -> subprocess.CompletedProcess[str]:
    """Run the command, and call `deed` once the journal has the event."""
    child = subprocess.Popen(
        box.make_argv("--yes"),
        cwd=box.folder,
        env=box.child_variables,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        wait_until(
            lambda: (
                child.poll() is not None
                or ((box.notes_folder / "journal.jsonl").exists() and begun in box.list_events())
            )
        )
        deed(child)
        out, err = child.communicate(timeout=120)
    finally:
        child.kill()
        child.wait()
    return subprocess.CompletedProcess(child.args, child.returncode, out, err)


class ProxiedImage:
    """An image in a registry behind a proxy: a Debian that the engine has, and two layers that it does not have."""

    def __init__(self, registry: LocalRegistry, between: FaultyProxy) -> None:
        self.registry, self.between = registry, between
        self.name = f"{REPOSITORY}:{os.urandom(4).hex()}"
        self.layers = image_parts.make_random_layers(2, 2 * MIB)
        self.digest = self.push_image()

    def push_image(self, architecture: str = "") -> str:
        there = [image_parts.load_debian(), *self.layers]
        config = image_parts.PYTHON_CONFIG
        return image_parts.push_image(
            f"{self.registry.address}/{self.name}", there, config=config, architecture=architecture
        )

    @property
    def image_name(self) -> str:
        return f"{self.between.host_port}/{self.name}"

    @property
    def last_digest(self) -> str:
        """Return the digest of the last layer, as in requests for it."""
        return hashlib.sha256(self.layers[-1].packed_data).hexdigest()


@contextlib.contextmanager
def start_tight_engine(python_image: str) -> Iterator[DockerEngine]:
    """An engine with its data on a small disk, which tries each layer once instead of five times; it has the Debian."""
    with make_scratch() as folder:
        disk = folder / "disk"
        disk.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4g", "none", str(disk)], check=True)
        with start_engine("--max-download-attempts", "1", root=disk) as made:
            made.run_docker("pull", "--quiet", python_image)
            yield made


def set_free_space(disk: Path, free_mib: int) -> None:
    """Set the free space of the disk in MiB."""
    told = os.statvfs(disk)
    used = (told.f_blocks - told.f_bfree) * told.f_frsize
    size = (used >> 10) + free_mib * 1024
    subprocess.run(["mount", "-o", f"remount,size={size}k", str(disk)], check=True)
