"""Packages and build results in a real container, with the same functions as on this host."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

from envcheck.core.errors import StepError
from installers.plan.requirement import SatisfiedRequirement
from installers.recipes.recipe import Checkout, Package, RecipeBuild
from installers.software import builds, checkouts, pip_runner
from installers.software.builds import BuildSite
from installers.software.pip_runner import PipError, PipRunner
from installers.state import checksums
from installers.targets.exec_target import ContainerTarget
from tests.installers.images.engine_parts import DockerEngine
from tests.installers.provision_helpers import PackageIndex, serve_index, stock_index
from tests.installers.software.test_checkouts import origin
from tests.installers.software.test_checkouts import serve_git as serving_git

__all__ = ("origin",)  # a fixture of the tests of clones


@pytest.fixture(scope="module")
def target(
    engine: DockerEngine, python_image_here: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ContainerTarget]:
    """A running container with Python."""
    client, name = docker.DockerClient(engine.docker_host, version="auto", timeout=60), "envcheck-test-packages"
    engine.run_docker("run", "-dit", "--name", name, "--network", "host", python_image_here, "bash")
    folder = tmp_path_factory.mktemp("notes")
    (folder / ".envcheck").mkdir()
    yield ContainerTarget(client.api, name, "python3", folder)
    engine.run_docker("rm", "-f", name)
    client.close()


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PackageIndex]:
    folder = tmp_path_factory.mktemp("index")
    stock_index(folder)
    with serve_index(folder) as server:
        yield server


def test_packages_inside(target: ContainerTarget, index: PackageIndex) -> None:
    """pip resolves in the container, a wrong resolution is refused, and the resolved versions are installed."""
    pip, own = PipRunner(target, lambda line: None), index.base_url
    if "pip" not in target.read_environment().packages:
        pytest.skip("the image's Python has no pip")

    with pytest.raises(PipError, match="no version that satisfies alpha==7"):
        pip_runner.install_packages(pip, [Package("alpha", "==7", own)], (), force=False)
    found = pip_runner.install_packages(pip, [Package("alpha", "==1.0", own)], [Package("beta", "<2")], force=False)

    there = target.read_environment().packages
    assert {w.name: (w.version, w.index) for w in found} == {"alpha": ("1.0", own), "beta": ("1.5", own)}
    assert (there["alpha"], there["beta"]) == ("1.0", "1.5")
    assert pip_runner.install_packages(pip, [Package("alpha", "==1.0", own)], (), force=False) == ()


def test_files(target: ContainerTarget, tmp_path: Path) -> None:
    """A file of 40 MB is copied in and out unchanged; a folder is refused."""
    source = tmp_path / "a"
    source.write_bytes(os.urandom(40 << 20) + b"odd")
    target.copy_in(source, "/var/tmp/some where/a.whl")
    target.copy_out("/var/tmp/some where/a.whl", tmp_path / "b")

    assert checksums.compute_sha256(tmp_path / "b") == checksums.compute_sha256(source)
    with pytest.raises(StepError, match="is not a regular file"):
        target.copy_out("/var/tmp", tmp_path / "c")


def test_clone_and_build_inside(target: ContainerTarget, origin: Path, tmp_path: Path) -> None:
    """A clone and a build in a container whose start files print; the result is cached on this host and restored."""
    target.run_command(("sh", "-c", "echo 'echo welcome to the machine' > ~/.bash_profile"), timeout_s=60, env={})
    folder, ground = "/var/tmp/my work/project", BuildSite(target, tmp_path / "cache")
    build = RecipeBuild("said", folder, (("sh", "-c", "mkdir -p out; cp said.txt out/said.so"),), "out/*.so")
    with serving_git(origin, smart=True) as (url, _):
        asked = Checkout(url, "v1.0", folder)
        commit = checkouts.update_clone(target, asked, lambda line: None).commit
        state = checkouts.inspect_clone(target, asked)
    made = builds.run_build(ground, build, commit, lambda line: None)
    target.run_command(("rm", "-r", f"{folder}/out"), timeout_s=60, env={})
    again = builds.run_build(ground, build, commit, lambda line: None)

    assert (state.commit, state.changed, state.remote) == (commit, (), url)
    assert isinstance(checkouts.plan_clone(asked, state), SatisfiedRequirement)
    assert (made.from_cache, again.from_cache) == (False, True)
    assert target.read_file(f"{folder}/out/said.so").endswith("one\n")
    assert isinstance(builds.plan_build(build, builds.inspect_build(ground, build, commit)), SatisfiedRequirement)
