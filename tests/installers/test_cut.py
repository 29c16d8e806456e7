"""SIGKILL at every boundary of every step, by the command: later runs come to the same end."""

from __future__ import annotations

import dataclasses
import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from installers.locks import lockfile
from installers.state import checksums
from tests.installers.bundle.test_bundle_sources import BUILD, CHECKOUT, make_build_commands
from tests.installers.bundle.weights_helpers import serve_hub as hub_serving
from tests.installers.bundle.weights_helpers import write_model
from tests.installers.kill_parts import BOUNDARIES, ROOT, kill_at_boundary
from tests.installers.provision_helpers import ProvisionCommand, serve_index, stock_index, write_recipe, write_wheel
from tests.installers.software.source_parts import (
    SETUPTOOLS,
    copy_setuptools,
    make_project,
    require_gcc,
    write_source_archive,
)
from tests.installers.software.test_builds import FILES
from tests.installers.test_provision_weights import CLIENT, add_weights
from tests.tiers import thin_out

pytestmark = pytest.mark.real

STEPS = ("environment", "packages", "library", "clone", "build", "proof", "weights")
OPTIONS = ("--yes", "--fetch-weights")
LIBRARY = """
[[libraries]]
source = "t"
name = "libnobody-has-this.so.7"
package = "lender"
specifier = ">=1"
pattern = "lender/libs/libnobody-*.so.7.1"
link = "lender/libs/libnobody-has-this.so.7"
"""


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProvisionCommand]:
    """A recipe with every kind of step of a virtual environment."""
    require_gcc()
    tmp_path = tmp_path_factory.mktemp("cut")
    index = tmp_path / "index"
    stock_index(index)
    write_wheel(index, "delta", "1.5")
    write_wheel(index, "lender", "1.0", {"lender/libs/libnobody-has.so.7.1": "a library", "lender/__init__.py": ""})
    write_wheel(index, "huggingface_hub", "1.0", {"huggingface_hub/__init__.py": CLIENT})
    write_source_archive(index)
    copy_setuptools(index)
    make_project(tmp_path / "project", SETUPTOOLS)
    make_project(tmp_path / "fast", FILES)
    write_model(tmp_path / "hub/baidu/ERNIE")
    with serve_index(index) as served, hub_serving(tmp_path / "hub") as hub:
        made = ProvisionCommand(tmp_path, served)
        write_recipe(made.recipes, "alpha", "gamma", "huggingface_hub")
        path = made.recipes / "little.toml"
        clones = CHECKOUT.format(tmp_path / "project", "v1", tmp_path / "worker", "editable = true")
        clones += CHECKOUT.format(tmp_path / "fast", "v1", tmp_path / "built", "")
        path.write_text(
            path.read_text() + LIBRARY + clones + BUILD.format(clone=tmp_path / "built", **make_build_commands())
        )
        add_weights(path)
        made.env |= {"HF_ENDPOINT": hub.base_url}
        yield made


def run_command(machine: ProvisionCommand, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        machine.make_argv(*options), cwd=machine.home.parent, env={**machine.env, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL,
    )  # fmt: skip


def read_state(machine: ProvisionCommand) -> dict[str, object]:
    """Return everything that provisioning leaves, except times."""
    top, mark = machine.home.parent, json.loads((machine.notes_folder / "state.json").read_text())
    site = next(machine.environment_folder.glob("lib/python3*/site-packages"))
    code = "import alpha, gamma, worker, fast; print(alpha.__version__, gamma.made, worker.says, fast.answer())"
    said = subprocess.run(
        [machine.environment_folder / "bin" / "python", "-c", code], capture_output=True, text=True, cwd="/"
    )
    clones = [
        subprocess.run(["git", "-C", top / name, *words], capture_output=True, text=True).stdout
        for name in ("worker", "built")
        for words in (("rev-parse", "HEAD"), ("status", "--porcelain"), ("config", "--get-regexp", "envcheck"))
    ]
    return {
        "says": said.stdout,
        "packages": sorted(path.name for path in site.glob("*.dist-info")),
        "torn": sorted(path.name for path in site.glob("~*")),
        "link": (site / "lender/libs/libnobody-has-this.so.7").resolve().name,
        "clones": clones,
        "weights": sorted((path.name, path.stat().st_size) for path in (top / "models/ernie").iterdir()),
        "lock": read_lock(lockfile.load_lock(machine.lock_path), top / "built"),
        "mark": {key: mark[key] for key in ("made", "doing", "added")},
        "proof": mark["proofs"]["little"] | {"sources": sorted(mark["proofs"]["little"]["sources"])},
        "left": sorted(
            path.name for path in machine.notes_folder.iterdir() if path.name not in ("tmp", "pip.log", "venv.log")
        ),
    }


def read_lock(lock: lockfile.Lock, clone: Path) -> list[object]:
    """Two builds of one source differ in their times: replace the hash by that of the existing file."""
    built = [(b.name, b.path, b.commit, b.sha256 == checksums.compute_sha256(clone / b.path)) for b in lock.builds]
    wheels = sorted(lock.wheels, key=lambda each: each.name)
    return [dataclasses.replace(lock, builds=(), wheels=()), wheels, built]


def remove_everything(machine: ProvisionCommand) -> None:
    """Remove everything."""
    for name in ("home", "worker", "built", "models"):
        shutil.rmtree(machine.home.parent / name, ignore_errors=True)


@pytest.fixture(scope="module")
def wanted(machine: ProvisionCommand) -> dict[str, object]:
    """The result of an uninterrupted run."""
    uncut = run_command(machine, *OPTIONS)
    assert uncut.returncode == 0, uncut.stdout + uncut.stderr
    return read_state(machine)


@pytest.mark.parametrize("step", thin_out(1, STEPS))
def test_cut_at_every_boundary(step: str, machine: ProvisionCommand, wanted: dict[str, object]) -> None:
    """Killed before each step, and on both sides of its end: the next run comes to the same result, a further one
    finds nothing to do, and an undo removes everything."""
    remove_everything(machine)
    for event, when in BOUNDARIES[:-1]:
        kill_at_boundary(machine.make_argv(*OPTIONS), step, event, when, machine.env, machine.home.parent)
    check_same_end(machine, wanted)


@pytest.mark.extended
def test_cut_behind_each_step(machine: ProvisionCommand, wanted: dict[str, object]) -> None:
    """The same if it is killed right after the journal records that a step is done."""
    remove_everything(machine)
    for step in STEPS:
        kill_at_boundary(machine.make_argv(*OPTIONS), step, *BOUNDARIES[-1], machine.env, machine.home.parent)
    check_same_end(machine, wanted)


def check_same_end(machine: ProvisionCommand, wanted: dict[str, object]) -> None:
    last = run_command(machine, *OPTIONS)
    again = run_command(machine, *OPTIONS, "--json")

    assert last.returncode == 0, last.stdout + last.stderr
    assert read_state(machine) == wanted
    assert (again.returncode, json.loads(again.stdout)["performed"]) == (0, [])

    back = run_command(machine, "--undo", "--yes")

    assert back.returncode == 0, back.stderr
    assert [name for name in ("worker", "built") if (machine.home.parent / name).exists()] == []
    assert not machine.environment_folder.exists()
