"""`envcheck provision --weights` and `--fetch-weights`, by the command, against a hub of our own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from installers.bundle import weights
from tests.conftest import UNREACHABLE
from tests.installers.bundle.weights_helpers import Hub, model
from tests.installers.bundle.weights_helpers import serving as hub_serving
from tests.installers.provision_helpers import Machine, recipe_file, serving, stock, wheel
from tests.installers.test_boxed import Box, box  # noqa: F401 (a fixture)

pytestmark = pytest.mark.real

WEIGHTS = '[weights]\nsource = "t"\nhuggingface = "baidu/ERNIE"\n{more}folder = "models/ernie"\nsize_gib = {size}\n'
SECOND = "model-00002-of-00002.safetensors"
# Stands in for the hub's library inside the container, whose Python reaches no index that has the real one.
CLIENT = """
import json, os, urllib.request
def snapshot_download(repository, revision=None, local_dir=None, ignore_patterns=()):
    hub = os.environ["HF_ENDPOINT"]
    listed = json.load(urllib.request.urlopen(f"{hub}/api/models/{repository}"))["siblings"]
    os.makedirs(local_dir, exist_ok=True)
    for name in (each["rfilename"] for each in listed):
        with open(os.path.join(local_dir, name), "wb") as file:
            file.write(urllib.request.urlopen(f"{hub}/{repository}/resolve/main/{name}").read())
    return local_dir
"""


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    model(tmp_path / "hub/baidu/ERNIE", rows=1 << 14)
    with hub_serving(tmp_path / "hub") as served:
        yield served


def with_weights(recipe: Path, size: float = 0.01, more: str = "") -> None:
    text = recipe.read_text()
    recipe.write_text(text.replace("[hardware]", WEIGHTS.format(size=size, more=more) + "[hardware]", 1))


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """A recipe with weights and without packages; the folder of its weights stands below the working folder."""
    stock(tmp_path / "index")
    with serving(tmp_path / "index") as served:
        made = Machine(tmp_path, served)
        recipe_file(made.recipes, "alpha")
        with_weights(made.recipes / "little.toml")
        made.env |= {"PYTHONPATH": str(Path(__file__).parents[2])}
        yield made


def run(machine: Machine, *options: str, **env: str) -> subprocess.CompletedProcess[str]:
    """In a folder of the test's own, where the recipe's relative places stand."""
    return subprocess.run(
        machine.argv(*options), cwd=machine.home.parent, env=machine.env | env, capture_output=True, text=True,
        timeout=180, stdin=subprocess.DEVNULL,
    )  # fmt: skip


def flat(text: str) -> str:
    """Without the breaks of lines."""
    return " ".join(text.split())


def test_nothing_unasked(machine: Machine) -> None:
    """Weights are named with their size and fetched by nobody, as long as nobody asks; no room is found beforehand."""
    plain = run(machine, "--dry-run")
    asked = run(machine, "--dry-run", "--fetch-weights")
    recipe = machine.recipes / "little.toml"
    recipe.write_text(recipe.read_text().replace("size_gib = 0.01", "size_gib = 999999"))
    large = run(machine, "--yes", "--fetch-weights")

    assert "the weights of baidu/ERNIE (0.01 GiB)" in flat(plain.stdout)
    assert "fetch the weights" not in plain.stdout
    assert "fetch the weights of baidu/ERNIE from huggingface" in flat(asked.stdout)
    assert "about 10 MiB" in flat(asked.stdout)
    assert large.returncode == 1
    assert "are needed for what is not there yet" in flat(large.stderr)
    assert not machine.folder.exists()


def test_your_own(machine: Machine, tmp_path: Path) -> None:
    """A folder of one's own is checked before anything is done: whole and in its place, whole elsewhere, damaged, cut,
    or of a kind that cannot be told."""
    place = tmp_path / "models" / "ernie"
    model(place)
    elsewhere = shutil.copytree(place, tmp_path / "elsewhere")
    whole = run(machine, "--dry-run", "--weights", str(place))
    other = run(machine, "--yes", "--weights", str(elsewhere))
    (elsewhere / SECOND).write_bytes((place / SECOND).read_bytes()[:-9])
    (elsewhere / "config.json").unlink()
    damaged = run(machine, "--yes", "--weights", str(elsewhere))
    none = run(machine, "--yes", "--weights", str(tmp_path / "nowhere"))
    for path in place.glob("model*"):
        path.unlink()
    (place / "pytorch_model.bin").write_bytes(b"x")
    untold = run(machine, "--dry-run", "--weights", str(place))

    assert whole.returncode == 0, whole.stdout
    assert "whole, 2 files" in flat(whole.stdout)
    assert other.returncode == damaged.returncode == none.returncode == 1
    assert "is not where the recipe looks" in flat(other.stderr)
    assert f"mv {elsewhere} {place}" in flat(other.stderr)
    assert SECOND in damaged.stderr
    assert "config.json is missing (give the folder of the model itself" in flat(damaged.stderr)
    assert "cannot be read" in none.stderr
    assert "cannot be told whole" in flat(untold.stdout)
    assert not machine.folder.exists()


@pytest.mark.parametrize(
    "options",
    (
        ("--weights", "x", "--driver", "x"),
        ("--weights", "x", "--fetch-weights"),
        ("--undo", "--fetch-weights"),
        ("--recipe", "tiny-cpu", "--fetch-weights"),
    ),
)
def test_wrong_usage(machine: Machine, options: tuple[str, ...]) -> None:
    """Options that contradict each other, and a recipe without weights, are wrong usage."""
    done = run(machine, "--dry-run", *options)

    assert done.returncode == 2
    assert "weights" in done.stderr


def test_fetched_by_the_real_library(machine: Machine, hub: Hub, tmp_path: Path) -> None:
    """The hub's own library in the environment: cut off it is a failed step that leaves the proved environment alone;
    the second run fetches what is not complete; the third does nothing; an undo leaves the weights."""
    real = os.environ.get("PIP_INDEX_URL") or "https://pypi.org/simple"
    recipe_file(machine.recipes, "huggingface_hub")
    with_weights(machine.recipes / "little.toml")
    env = {"PIP_INDEX_URL": real, "HF_ENDPOINT": hub.url, "HF_HUB_DISABLE_XET": "1", "HF_HOME": str(tmp_path / "hf")}
    if "PIP_CONFIG_FILE" not in os.environ:
        machine.env.pop("PIP_CONFIG_FILE")
    hub.cut = 1 << 16
    cut = run(machine, "--yes", "--fetch-weights", **env)
    if any(word in cut.stderr + (machine.own / "pip.log").read_text() for word in UNREACHABLE):
        pytest.skip("no package index can be reached")

    assert cut.returncode == 4, cut.stderr
    assert "the hub does not answer, or stopped in the middle" in flat(cut.stderr)
    assert "nothing to do" in run(machine, "--yes", **env).stdout

    hub.cut = 0
    again = run(machine, "--yes", "--fetch-weights", **env)
    third = run(machine, "--yes", "--fetch-weights", "--json", **env)
    gone = run(machine, "--undo", "--yes")

    assert again.returncode == 0, again.stderr
    assert weights.check(tmp_path / "models/ernie").whole is True
    assert json.loads(third.stdout)["performed"] == []
    assert any("whole, 2 files" in line for line in json.loads(third.stdout)["satisfied"])
    assert gone.returncode == 0
    assert weights.check(tmp_path / "models/ernie").whole is True


def test_in_a_container(box: Box, hub: Hub, tmp_path: Path) -> None:  # noqa: F811
    """Fetched inside, where the recipe looks: the files stand on the host, below the mount, whole; a hub that has
    nothing is told, and the next one tried."""
    wheel(tmp_path / "index", "huggingface_hub", "1.0", {"huggingface_hub/__init__.py": CLIENT})
    recipe = tmp_path / "recipes" / "boxed.toml"
    extra = recipe.read_text().partition("[[packages]]")[2].partition("[[packages]]")[0]
    package = "[[packages]]" + extra.replace('"first"', '"huggingface_hub"')
    recipe.write_text(recipe.read_text().replace("[[jobs]]", package + "[[jobs]]"))
    with_weights(recipe, more='modelscope = "baidu/ERNIE"\nfirst = "modelscope"\n')
    variables = {**box.variables, "HF_ENDPOINT": hub.url}
    done = subprocess.run(
        box.argv("--yes", "--fetch-weights"), cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=240
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "the library modelscope is not installed there; trying the next hub" in flat(done.stderr)
    assert weights.check(tmp_path / "data/models/ernie").whole is True

    own = box.run("--yes", "--json", "--weights", "data/models/ernie")
    outside = box.run("--yes", "--weights", str(tmp_path / "hub/baidu/ERNIE"))

    assert json.loads(own.stdout)["performed"] == []
    assert any("/work/models/ernie in the container: whole" in line for line in json.loads(own.stdout)["satisfied"])
    assert outside.returncode == 1
    assert "is in no mount of the container" in flat(outside.stderr)
