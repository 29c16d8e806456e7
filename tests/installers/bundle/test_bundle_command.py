"""The envcheck bundle command: for a machine without network, interrupted, or refused."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from envcheck.core.errors import StepError
from installers.bundle import image_layout
from installers.bundle import tar as bundle_tar
from installers.recipes import catalogue
from tests.installers.bundle.bundle_helpers import make_tar
from tests.installers.provision_helpers import (
    ROOT,
    ProvisionCommand,
    serve_index,
    stock_index,
    write_recipe,
    write_wheel,
)

pytestmark = pytest.mark.real


class BundleCommand(ProvisionCommand):
    """envcheck bundle as a user runs it; its own requirements come from the configured index, the recipe's from a test
    index.
    """

    def make_bundle_argv(self, *options: str) -> list[str]:
        return [
            sys.executable,
            "-m",
            "envcheck",
            "bundle",
            "--recipes",
            str(self.recipes),
            "--recipe",
            "little",
            *options,
        ]


@pytest.fixture
def maker(tmp_path: Path) -> BundleCommand:
    made = BundleCommand(tmp_path, "unused")
    made.env = {k: v for k, v in made.env.items() if k not in ("PIP_INDEX_URL", "PIP_CONFIG_FILE")}
    return made


def run_command(argv: list[str], env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        argv, cwd=ROOT, env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120
    )


def test_from_command_to_a_machine_without_network(tmp_path: Path, maker: BundleCommand) -> None:
    """The bundle installs envcheck and exactly the packages into an environment without an index."""
    stock_index(tmp_path / "index")
    path = tmp_path / "little.tar"
    with serve_index(tmp_path / "index") as index:
        env = {**maker.env, "PIP_EXTRA_INDEX_URL": index.base_url}
        planned = run_command(maker.make_bundle_argv("-o", str(path), "--dry-run"), env)
        nothing_yet = not path.exists()
        done = run_command(maker.make_bundle_argv("-o", str(path), "--json"), env)
    assert done.returncode == 0, done.stderr
    subprocess.run(["tar", "xf", path, "envcheck.pyz"], cwd=tmp_path, check=True)
    offline = {**maker.env, "PIP_INDEX_URL": "http://127.0.0.1:9/", "PIP_NO_CACHE_DIR": "1", "PYTHONPATH": ""}
    base = getattr(sys, "_base_executable", sys.executable)
    words = ["provision", "--bundle", str(path), "--into", str(tmp_path / "venv"), "--yes"]
    there = run_command([base, "-I", "-S", str(tmp_path / "envcheck.pyz"), *words], offline)

    assert "wheels for Python" in planned.stdout and nothing_yet
    assert json.loads(done.stdout)["result"] == "done"
    assert there.returncode == 0, there.stdout + there.stderr
    assert maker.read_versions(tmp_path / "venv") == "1.0 1.5"
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []


def test_ctrl_c_leaves_nothing(tmp_path: Path, maker: BundleCommand) -> None:
    """Ctrl-C also ends pip, and leaves neither file nor folder."""
    for version in ("1.0", "1.5"):
        write_wheel(tmp_path / "index", "beta", version, {"beta/__init__.py": "x = '" + "y" * (4 << 20) + "'"})
    write_wheel(tmp_path / "index", "alpha", "1.0", needs="beta>=1")
    place = tmp_path / "out"
    place.mkdir()
    with serve_index(tmp_path / "index") as index:
        index.mode = "slow"
        env = {**maker.env, "PIP_EXTRA_INDEX_URL": index.base_url}
        argv = maker.make_bundle_argv("-o", str(place / "x.tar"))
        child = subprocess.Popen(argv, cwd=ROOT, env=env, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        deadline = time.monotonic() + 60
        while index.asked < 2 and time.monotonic() < deadline:
            time.sleep(0.1)
        child.send_signal(signal.SIGINT)
        said = child.communicate(timeout=120)[1]

    assert child.returncode == 130, said
    assert list(place.iterdir()) == []


def test_what_cannot_be_made(tmp_path: Path, maker: BundleCommand) -> None:
    """A missing folder and an unreachable index have a message and the documented exit code."""
    write_recipe(maker.recipes, "no-such-package-of-envcheck ==7")
    env = {**maker.env, "PIP_CONFIG_FILE": os.devnull, "PIP_INDEX_URL": "http://127.0.0.1:9/"}
    nowhere = run_command(maker.make_bundle_argv("-o", str(tmp_path / "no/x.tar")), env)
    unreachable = run_command(maker.make_bundle_argv("-o", str(tmp_path / "x.tar")), env)

    assert (nowhere.returncode, unreachable.returncode) == (2, 4)
    assert "does not exist" in nowhere.stderr
    assert "the package index is unreachable" in unreachable.stderr
    assert "Traceback" not in unreachable.stderr
    assert not (tmp_path / "x.tar").exists()


def test_no_export(tmp_path: Path) -> None:
    """An export that is interrupted or invalid is a failed step; no bundle is left."""
    for raw in (b"", b"x" * 5000, make_tar({"manifest.json": b"[]"}), make_tar({"manifest.json": b"[{}]"})):
        with pytest.raises(StepError), bundle_tar.BundleWriter(tmp_path / "x.tar") as writer:
            image_layout.pack_export(writer, [raw], "a:1", "x86_64")

    assert list(tmp_path.iterdir()) == []


@pytest.mark.fast
def test_an_image_for_each_role(tmp_path: Path) -> None:
    """A bundle has wheels and builds for the Python of one image: a recipe with several is refused, without an engine.

    Node roles alone are no obstacle, and no option of the command chooses one.
    """
    env = {**os.environ, "DOCKER_HOST": f"unix://{tmp_path}/none", "ENVCHECK_HOME": str(tmp_path / "home")}
    argv = [sys.executable, "-m", "envcheck", "bundle", "--dry-run", "-o", str(tmp_path / "x.tar"), "--recipe"]
    boxed = run_command([*argv, "ernie-21b-hetero-container"], env)
    bare = run_command([*argv, "ernie-21b-hetero", "--arch", "x86_64"], env)
    recipe = catalogue.find_recipe(catalogue.load_all(), "ernie-21b-hetero-container")
    assert recipe.image

    assert boxed.returncode == 2
    assert "has an image for each node role; a bundle holds one image" in boxed.stderr
    assert "docker save" in boxed.stderr
    assert "--node-role" not in bare.stderr
    assert (bare.returncode, "flagcx" in bare.stdout.lower()) == (0, True), bare.stderr
    images = [recipe.image.references, *recipe.image.roles.values()]
    assert len({names["x86_64"] for names in images}) == len(images)


@pytest.mark.parametrize("name", ["missing.tar", "."])
def test_what_is_no_file(name: str, tmp_path: Path) -> None:
    """A bundle that is missing or a folder is a usage error, as any file that cannot be read."""
    argv = [sys.executable, "-m", "envcheck", "provision", "--bundle", str(tmp_path / name)]
    done = run_command(argv, dict(os.environ))

    assert done.returncode == 2
    assert "is not a file" in done.stderr
