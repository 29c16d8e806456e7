"""`envcheck provision --weights` and `--fetch-weights`, by the command, with a local hub."""

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
from tests.installers.bundle.weights_helpers import LocalHub, write_model
from tests.installers.bundle.weights_helpers import serve_hub as hub_serving
from tests.installers.provision_helpers import ProvisionCommand, serve_index, stock_index, write_recipe, write_wheel
from tests.installers.test_container_provision import ContainerCommand, box  # noqa: F401 (a fixture)

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
def hub(tmp_path: Path) -> Iterator[LocalHub]:
    write_model(tmp_path / "hub/baidu/ERNIE", rows=1 << 14)
    with hub_serving(tmp_path / "hub") as served:
        yield served


def add_weights(recipe: Path, size: float = 0.01, more: str = "") -> None:
    text = recipe.read_text()
    recipe.write_text(text.replace("[hardware]", WEIGHTS.format(size=size, more=more) + "[hardware]", 1))


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[ProvisionCommand]:
    """A recipe with weights and without packages; the folder of the weights is below the working folder."""
    stock_index(tmp_path / "index")
    with serve_index(tmp_path / "index") as served:
        made = ProvisionCommand(tmp_path, served)
        write_recipe(made.recipes, "alpha")
        add_weights(made.recipes / "little.toml")
        made.env |= {"PYTHONPATH": str(Path(__file__).parents[2])}
        yield made


def run_command(machine: ProvisionCommand, *options: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run the command in the test's folder, where relative paths of the recipe start."""
    return subprocess.run(
        machine.make_argv(*options), cwd=machine.home.parent, env=machine.env | env, capture_output=True, text=True,
        timeout=180, stdin=subprocess.DEVNULL,
    )  # fmt: skip


def join_lines(text: str) -> str:
    """Return the text without line breaks."""
    return " ".join(text.split())


def test_nothing_unasked(machine: ProvisionCommand) -> None:
    """Weights are listed with their size and not downloaded without --fetch-weights; too little disk space is an
    obstacle."""
    plain = run_command(machine, "--dry-run")
    asked = run_command(machine, "--dry-run", "--fetch-weights")
    recipe = machine.recipes / "little.toml"
    recipe.write_text(recipe.read_text().replace("size_gib = 0.01", "size_gib = 999999"))
    large = run_command(machine, "--yes", "--fetch-weights")

    assert "weights of baidu/ERNIE (0.01 GiB)" in join_lines(plain.stdout)
    assert "download the weights" not in plain.stdout
    assert "download the weights of baidu/ERNIE from huggingface" in join_lines(asked.stdout)
    assert "about 10 MiB" in join_lines(asked.stdout)
    assert large.returncode == 1
    assert "needed for the remaining files" in join_lines(large.stderr)
    assert not machine.environment_folder.exists()


def test_your_own(machine: ProvisionCommand, tmp_path: Path) -> None:
    """A user's folder is checked before anything is done: complete and in place, complete elsewhere, damaged,
    incomplete, or of a format that cannot be checked."""
    place = tmp_path / "models" / "ernie"
    write_model(place)
    elsewhere = shutil.copytree(place, tmp_path / "elsewhere")
    whole = run_command(machine, "--dry-run", "--weights", str(place))
    other = run_command(machine, "--yes", "--weights", str(elsewhere))
    (elsewhere / SECOND).write_bytes((place / SECOND).read_bytes()[:-9])
    (elsewhere / "config.json").unlink()
    damaged = run_command(machine, "--yes", "--weights", str(elsewhere))
    none = run_command(machine, "--yes", "--weights", str(tmp_path / "nowhere"))
    for path in place.glob("model*"):
        path.unlink()
    (place / "pytorch_model.bin").write_bytes(b"x")
    untold = run_command(machine, "--dry-run", "--weights", str(place))

    assert whole.returncode == 0, whole.stdout
    assert f"weights in {place}: complete, 2 files" in join_lines(whole.stdout)
    assert other.returncode == damaged.returncode == none.returncode == 1
    assert "the recipe expects them at" in join_lines(other.stderr)
    assert f"mv {elsewhere} {place}" in join_lines(other.stderr)
    assert SECOND in damaged.stderr
    assert "config.json: missing (pass the model folder itself" in join_lines(damaged.stderr)
    assert "cannot read it: " in none.stderr
    assert "cannot verify that they are complete" in join_lines(untold.stdout)
    assert not machine.environment_folder.exists()


@pytest.mark.parametrize(
    "options",
    (
        ("--weights", "x", "--install-driver", "x"),
        ("--weights", "x", "--fetch-weights"),
        ("--undo", "--fetch-weights"),
        ("--recipe", "tiny-cpu", "--fetch-weights"),
    ),
)
def test_wrong_usage(machine: ProvisionCommand, options: tuple[str, ...]) -> None:
    """Conflicting options, and a recipe without weights, are wrong usage."""
    done = run_command(machine, "--dry-run", *options)

    assert done.returncode == 2
    assert "weights" in done.stderr


def test_fetched_by_the_real_library(machine: ProvisionCommand, hub: LocalHub, tmp_path: Path) -> None:
    """The hub's library in the environment: an interrupted download is a failed step that keeps the verified
    environment; the second run completes it; the third does nothing; an undo keeps the weights."""
    real = os.environ.get("PIP_INDEX_URL") or "https://pypi.org/simple"
    write_recipe(machine.recipes, "huggingface_hub")
    add_weights(machine.recipes / "little.toml")
    env = {
        "PIP_INDEX_URL": real,
        "HF_ENDPOINT": hub.base_url,
        "HF_HUB_DISABLE_XET": "1",
        "HF_HOME": str(tmp_path / "hf"),
    }
    if "PIP_CONFIG_FILE" not in os.environ:
        machine.env.pop("PIP_CONFIG_FILE")
    hub.cut = 1 << 16
    cut = run_command(machine, "--yes", "--fetch-weights", **env)
    if any(word in cut.stderr + (machine.notes_folder / "pip.log").read_text() for word in UNREACHABLE):
        pytest.skip("no package index can be reached")

    assert cut.returncode == 4, cut.stderr
    assert "the model hub did not respond, or the connection was interrupted" in join_lines(cut.stderr)
    assert "nothing to do" in run_command(machine, "--yes", **env).stdout

    hub.cut = 0
    again = run_command(machine, "--yes", "--fetch-weights", **env)
    third = run_command(machine, "--yes", "--fetch-weights", "--json", **env)
    gone = run_command(machine, "--undo", "--yes")

    assert again.returncode == 0, again.stderr
    assert weights.check_weights(tmp_path / "models/ernie").is_whole is True
    assert json.loads(third.stdout)["performed"] == []
    assert any("complete, 2 files" in line for line in json.loads(third.stdout)["satisfied"])
    assert gone.returncode == 0
    assert weights.check_weights(tmp_path / "models/ernie").is_whole is True


def add_boxed_weights(folder: Path) -> None:
    """Give the recipe of the container weights, and the hub's client to the index and the recipe."""
    write_wheel(folder / "index", "huggingface_hub", "1.0", {"huggingface_hub/__init__.py": CLIENT})
    recipe = folder / "recipes" / "boxed.toml"
    extra = recipe.read_text().partition("[[packages]]")[2].partition("[[packages]]")[0]
    package = "[[packages]]" + extra.replace('"first"', '"huggingface_hub"')
    recipe.write_text(recipe.read_text().replace("[[jobs]]", package + "[[jobs]]"))
    add_weights(recipe, more='modelscope = "baidu/ERNIE"\nfirst = "modelscope"\n')


@pytest.mark.extended
def test_fetched_in_a_container_by_the_script(box: ContainerCommand, hub: LocalHub, tmp_path: Path) -> None:  # noqa: F811
    """The script downloads the weights in the container, with the caller's server; on the host they are complete."""
    add_boxed_weights(tmp_path)
    printed = box.run_command("--as-script", "--fetch-weights")
    variables = {**box.child_variables, "HF_ENDPOINT": hub.base_url}
    ran = subprocess.run(
        ["bash", "-c", printed.stdout], cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=240
    )
    then = box.run_command("--dry-run", "--json", "--fetch-weights")

    assert ran.returncode == 0, printed.stdout[:2000] + ran.stderr
    assert weights.check_weights(tmp_path / "data/models/ernie").is_whole is True
    assert [step["name"] for step in json.loads(then.stdout)["steps"]] == ["proof"], then.stdout


def test_in_a_container(box: ContainerCommand, hub: LocalHub, tmp_path: Path) -> None:  # noqa: F811
    """Weights downloaded in the container are on the host below the mount, complete; if a hub fails, the next one is
    tried."""
    add_boxed_weights(tmp_path)
    variables = {**box.child_variables, "HF_ENDPOINT": hub.base_url}
    done = subprocess.run(
        box.make_argv("--yes", "--fetch-weights"),
        cwd=tmp_path,
        env=variables,
        capture_output=True,
        text=True,
        timeout=240,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "Python library modelscope is not installed; trying the next hub" in join_lines(done.stderr)
    assert weights.check_weights(tmp_path / "data/models/ernie").is_whole is True

    own = box.run_command("--yes", "--json", "--weights", "data/models/ernie")
    outside = box.run_command("--yes", "--weights", str(tmp_path / "hub/baidu/ERNIE"))

    assert json.loads(own.stdout)["performed"] == []
    assert any(
        "(/work/models/ernie in the container): complete" in line for line in json.loads(own.stdout)["satisfied"]
    )
    assert outside.returncode == 1
    assert "not on a mount of the container" in join_lines(outside.stderr)


def test_fetched_by_the_script(machine: ProvisionCommand, hub: LocalHub, tmp_path: Path) -> None:
    """--as-script downloads the weights into the same folder; provisioning finds them complete.  A hub whose library is
    not installed is passed over."""
    write_wheel(tmp_path / "index", "huggingface_hub", "1.0", {"huggingface_hub/__init__.py": CLIENT})
    write_recipe(machine.recipes, "huggingface_hub")
    add_weights(machine.recipes / "little.toml", more='modelscope = "baidu/ERNIE"\nfirst = "modelscope"\n')
    words = ("--fetch-weights", "--into", str(tmp_path / "own"))
    printed = run_command(machine, "--as-script", *words)
    env = machine.env | {"HF_ENDPOINT": hub.base_url}
    ran = subprocess.run(["bash", "-c", printed.stdout], cwd=tmp_path, env=env, capture_output=True, text=True)
    then = run_command(machine, "--dry-run", "--json", *words)

    assert ran.returncode == 0, printed.stdout[:2000] + ran.stderr
    assert "modelscope" in ran.stderr
    assert [step["name"] for step in json.loads(then.stdout)["steps"]] == ["proof"], then.stdout
