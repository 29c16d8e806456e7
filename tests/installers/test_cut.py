"""SIGKILL at every boundary of every step, by the command: what follows comes to the same end."""

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
from tests.installers.bundle.test_bundle_sources import BUILD, CHECKOUT, build_commands
from tests.installers.bundle.weights_helpers import model
from tests.installers.bundle.weights_helpers import serving as hub_serving
from tests.installers.cut_parts import BOUNDARIES, ROOT, cut
from tests.installers.provision_helpers import Machine, recipe_file, serving, stock, wheel
from tests.installers.software.source_parts import SETUPTOOLS, archive, needs_gcc, project, setuptools
from tests.installers.software.test_builds import FILES
from tests.installers.test_provision_weights import CLIENT, with_weights
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
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A recipe with every kind of step that a virtual environment knows."""
    needs_gcc()
    tmp_path = tmp_path_factory.mktemp("cut")
    index = tmp_path / "index"
    stock(index)
    wheel(index, "delta", "1.5")
    wheel(index, "lender", "1.0", {"lender/libs/libnobody-has.so.7.1": "a library", "lender/__init__.py": ""})
    wheel(index, "huggingface_hub", "1.0", {"huggingface_hub/__init__.py": CLIENT})
    archive(index)
    setuptools(index)
    project(tmp_path / "project", SETUPTOOLS)
    project(tmp_path / "fast", FILES)
    model(tmp_path / "hub/baidu/ERNIE")
    with serving(index) as served, hub_serving(tmp_path / "hub") as hub:
        made = Machine(tmp_path, served)
        recipe_file(made.recipes, "alpha", "gamma", "huggingface_hub")
        path = made.recipes / "little.toml"
        clones = CHECKOUT.format(tmp_path / "project", "v1", tmp_path / "worker", "editable = true")
        clones += CHECKOUT.format(tmp_path / "fast", "v1", tmp_path / "built", "")
        path.write_text(
            path.read_text() + LIBRARY + clones + BUILD.format(clone=tmp_path / "built", **build_commands())
        )
        with_weights(path)
        made.env |= {"HF_ENDPOINT": hub.url}
        yield made


def run(machine: Machine, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        machine.argv(*options), cwd=machine.home.parent, env={**machine.env, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL,
    )  # fmt: skip


def state(machine: Machine) -> dict[str, object]:
    """All that a provisioning leaves, but for what has a time in it."""
    top, mark = machine.home.parent, json.loads((machine.own / "state.json").read_text())
    site = next(machine.folder.glob("lib/python3*/site-packages"))
    code = "import alpha, gamma, worker, fast; print(alpha.__version__, gamma.made, worker.says, fast.answer())"
    said = subprocess.run([machine.folder / "bin" / "python", "-c", code], capture_output=True, text=True, cwd="/")
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
        "lock": locked(lockfile.load(machine.lock), top / "built"),
        "mark": {key: mark[key] for key in ("made", "doing", "added")},
        "proof": mark["proofs"]["little"] | {"sources": sorted(mark["proofs"]["little"]["sources"])},
        "left": sorted(path.name for path in machine.own.iterdir() if path.name not in ("tmp", "pip.log", "venv.log")),
    }


def locked(lock: lockfile.Lock, clone: Path) -> list[object]:
    """Two builds of one source differ in their times: the sum is that of the file that is there."""
    built = [(b.name, b.path, b.commit, b.sha256 == checksums.sha256(clone / b.path)) for b in lock.builds]
    wheels = sorted(lock.wheels, key=lambda each: each.name)
    return [dataclasses.replace(lock, builds=(), wheels=()), wheels, built]


def clean(machine: Machine) -> None:
    """As if nothing had been."""
    for name in ("home", "worker", "built", "models"):
        shutil.rmtree(machine.home.parent / name, ignore_errors=True)


@pytest.fixture(scope="module")
def wanted(machine: Machine) -> dict[str, object]:
    """What an uncut run leaves."""
    uncut = run(machine, *OPTIONS)
    assert uncut.returncode == 0, uncut.stdout + uncut.stderr
    return state(machine)


@pytest.mark.parametrize("step", thin_out(2, STEPS))
def test_cut_at_every_boundary(step: str, machine: Machine, wanted: dict[str, object]) -> None:
    """Killed before a step is begun, and between that and its end on both sides, one after the other: the next run
    comes to what an uncut one leaves, a further one finds nothing to do, and an undo takes all of it back."""
    clean(machine)
    for event, when in BOUNDARIES[:-1]:
        cut(machine.argv(*OPTIONS), step, event, when, machine.env, machine.home.parent)
    ends_well(machine, wanted)


def test_cut_behind_each_step(machine: Machine, wanted: dict[str, object]) -> None:
    """Killed right after the journal says that a step is done, one step after the other: the same."""
    clean(machine)
    for step in STEPS:
        cut(machine.argv(*OPTIONS), step, *BOUNDARIES[-1], machine.env, machine.home.parent)
    ends_well(machine, wanted)


def ends_well(machine: Machine, wanted: dict[str, object]) -> None:
    last = run(machine, *OPTIONS)
    again = run(machine, *OPTIONS, "--json")

    assert last.returncode == 0, last.stdout + last.stderr
    assert state(machine) == wanted
    assert (again.returncode, json.loads(again.stdout)["performed"]) == (0, [])

    back = run(machine, "--undo", "--yes")

    assert back.returncode == 0, back.stderr
    assert [name for name in ("worker", "built") if (machine.home.parent / name).exists()] == []
    assert not machine.folder.exists()
