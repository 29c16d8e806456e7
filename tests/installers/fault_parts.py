"""What the tests of a provisioning's faults share: a small recipe, an engine with a disk of its own, and what a good
refusal looks like."""

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
from tests.installers.images.engine_parts import Engine, Registry, running_engine, scratch
from tests.installers.images.registry_faults import Front
from tests.installers.provision_helpers import until
from tests.installers.test_boxed import Box

MIB = 1 << 20
PACKAGES = re.compile(r"\[\[packages\]\][^\[]*")
REPOSITORY = "envcheck/faulty"  # one for all: its registry then has the large layer already


def clear(done: subprocess.CompletedProcess[str], code: int, words: str, next_words: str = "") -> None:
    """The exit code, one sentence that says what is the matter, one that says what to do, and nothing of Python's."""
    said, next_step = done.stderr.splitlines()[-2:]
    assert done.returncode == code, done.stdout + done.stderr
    assert said.startswith("envcheck: ")
    assert words in said, said
    assert next_step.startswith("  next: ")
    assert next_words in next_step, next_step
    assert not re.search(r"Traceback|Error\(|HTTPConnection|object at 0x|bug in envcheck", done.stderr)


def untouched(box: Box) -> None:
    """Neither notes nor a container nor a folder: the refusal came before anything was done."""
    assert not box.notes.exists()
    assert not (box.folder / "data").exists()
    assert box.engine.docker("ps", "-aq", "--filter", f"name=^{box.name}$").stdout == ""


def why(box: Box) -> str:
    """The reason that the journal's last line gives."""
    return str(json.loads((box.notes / "journal.jsonl").read_text().splitlines()[-1]).get("why"))


def good(box: Box) -> None:
    """The fault is gone: the same command comes to the proved end, and then finds nothing to do."""
    done, again = box.run("--yes"), box.run("--yes", "--json")

    assert done.returncode == 0, done.stdout + done.stderr
    assert box.events()[-1] == ("proof", "done")
    assert box.inside("true") == ""
    assert json.loads(again.stdout)["performed"] == []


def lean(box: Box) -> Box:
    """No packages, and a tool of the host's mounted: the faults of registries and containers need no pip."""
    tool = box.folder / "tools"
    tool.mkdir()
    path = box.folder / "recipes" / "boxed.toml"
    text = re.sub(r"import first.*'1.0'", "pass", PACKAGES.sub("", path.read_text()))
    path.write_text(text.replace("mounts = [", f'mounts = [{{ source = "{tool}", target = "/tools" }}, '))
    return box


def meanwhile(
    box: Box, begun: tuple[str, str], deed: Callable[[subprocess.Popen[str]], object]
) -> subprocess.CompletedProcess[str]:
    """The command, and the deed as soon as its journal has the event."""
    child = subprocess.Popen(
        box.argv("--yes"), cwd=box.folder, env=box.variables, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        until(lambda: child.poll() is not None or ((box.notes / "journal.jsonl").exists() and begun in box.events()))
        deed(child)
        out, err = child.communicate(timeout=120)
    finally:
        child.kill()
        child.wait()
    return subprocess.CompletedProcess(child.args, child.returncode, out, err)


class Shelf:
    """An image in a registry behind a proxy: a Debian that the engine has, and two layers that it has not."""

    def __init__(self, registry: Registry, between: Front) -> None:
        self.registry, self.between = registry, between
        self.name = f"{REPOSITORY}:{os.urandom(4).hex()}"
        self.layers = image_parts.random_layers(2, 2 * MIB)
        self.digest = self.push()

    def push(self, architecture: str = "") -> str:
        there = [image_parts.debian(), *self.layers]
        config = image_parts.PYTHON_CONFIG
        return image_parts.push(f"{self.registry.address}/{self.name}", there, config=config, architecture=architecture)

    @property
    def image(self) -> str:
        return f"{self.between.address}/{self.name}"

    @property
    def last(self) -> str:
        """The digest of the last layer, as requests for it name it."""
        return hashlib.sha256(self.layers[-1].data).hexdigest()


@contextlib.contextmanager
def tight_engine(python_image: str) -> Iterator[Engine]:
    """An engine whose data lie on a disk of their own, and which tries each layer once, not five times; it has the
    Debian."""
    with scratch() as folder:
        disk = folder / "disk"
        disk.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4g", "none", str(disk)], check=True)
        with running_engine("--max-download-attempts", "1", root=disk) as made:
            made.docker("pull", "--quiet", python_image)
            yield made


def resize(disk: Path, free_mib: int) -> None:
    """So much is free there from now on."""
    told = os.statvfs(disk)
    used = (told.f_blocks - told.f_bfree) * told.f_frsize
    size = (used >> 10) + free_mib * 1024
    subprocess.run(["mount", "-o", f"remount,size={size}k", str(disk)], check=True)
