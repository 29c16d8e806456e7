"""Packages, and files of builds, in a real container: the same functions as on this host."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

from envcheck.core.errors import StepError
from installers.plan.requirement import Satisfied
from installers.recipes.recipe import Build, Checkout, Package
from installers.software import builds, checkouts, packages
from installers.software.builds import BuildSite
from installers.software.packages import Pip, PipError
from installers.state import checksums
from installers.targets.exec_target import ContainerTarget
from tests.installers.images.engine_parts import Engine
from tests.installers.provision_helpers import Index, serving, stock
from tests.installers.software.test_checkouts import origin
from tests.installers.software.test_checkouts import serving as serving_git

__all__ = ("origin",)  # a fixture of the tests of clones


@pytest.fixture(scope="module")
def target(
    engine: Engine, python_image_here: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ContainerTarget]:
    """A running container with a Python."""
    client, name = docker.DockerClient(engine.url, version="auto", timeout=60), "envcheck-test-packages"
    engine.docker("run", "-dit", "--name", name, "--network", "host", python_image_here, "bash")
    folder = tmp_path_factory.mktemp("notes")
    (folder / ".envcheck").mkdir()
    yield ContainerTarget(client.api, name, "python3", folder)
    engine.docker("rm", "-f", name)
    client.close()


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Index]:
    folder = tmp_path_factory.mktemp("index")
    stock(folder)
    with serving(folder) as server:
        yield server


def test_packages_inside(target: ContainerTarget, index: Index) -> None:
    """pip in the container is asked first, refused where its answer is wrong, and installs what it answered."""
    pip, own = Pip(target, lambda line: None), index.url
    if "pip" not in target.environment().packages:
        pytest.skip("the image's Python has no pip")

    with pytest.raises(PipError, match="nothing that fits"):
        packages.install(pip, [Package("alpha", "==7", own)], (), force=False)
    found = packages.install(pip, [Package("alpha", "==1.0", own)], [Package("beta", "<2")], force=False)

    there = target.environment().packages
    assert {w.name: (w.version, w.index) for w in found} == {"alpha": ("1.0", own), "beta": ("1.5", own)}
    assert (there["alpha"], there["beta"]) == ("1.0", "1.5")
    assert packages.install(pip, [Package("alpha", "==1.0", own)], (), force=False) == ()


def test_files(target: ContainerTarget, tmp_path: Path) -> None:
    """A file of 40 MB goes in and comes out as it was; a folder is not taken for a file."""
    source = tmp_path / "a"
    source.write_bytes(os.urandom(40 << 20) + b"odd")
    target.put(source, "/var/tmp/some where/a.whl")
    target.bring("/var/tmp/some where/a.whl", tmp_path / "b")

    assert checksums.sha256(tmp_path / "b") == checksums.sha256(source)
    with pytest.raises(StepError, match="is no file"):
        target.bring("/var/tmp", tmp_path / "c")


def test_clone_and_build_inside(target: ContainerTarget, origin: Path, tmp_path: Path) -> None:
    """A clone and a build in a container whose start files talk; what it made is kept on this host and put back."""
    target.run(("sh", "-c", "echo 'echo welcome to the machine' > ~/.bash_profile"), timeout_s=60, env={})
    folder, ground = "/var/tmp/my work/project", BuildSite(target, tmp_path / "cache")
    build = Build("said", folder, (("sh", "-c", "mkdir -p out; cp said.txt out/said.so"),), "out/*.so")
    with serving_git(origin, smart=True) as (url, _):
        asked = Checkout(url, "v1.0", folder)
        commit = checkouts.perform(target, asked, lambda line: None).commit
        state = checkouts.there(target, asked)
    made = builds.perform(ground, build, commit, lambda line: None)
    target.run(("rm", "-r", f"{folder}/out"), timeout_s=60, env={})
    again = builds.perform(ground, build, commit, lambda line: None)

    assert (state.commit, state.changed, state.remote) == (commit, (), url)
    assert isinstance(checkouts.need(asked, state), Satisfied)
    assert (made.from_cache, again.from_cache) == (False, True)
    assert target.read(f"{folder}/out/said.so").endswith("one\n")
    assert isinstance(builds.need(build, builds.there(ground, build, commit)), Satisfied)
