"""`envcheck provision --bundle`, by the command: the same result on a machine without network."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from installers.locks import lockfile
from tests.installers.bundle.bundle_helpers import rewrite_bundle
from tests.installers.images.engine_parts import DockerEngine, start_engine
from tests.installers.provision_helpers import (
    ProvisionCommand,
    serve_index,
    stock_index,
    wait_until,
    write_recipe,
    write_wheel,
)
from tests.installers.test_container_provision import ContainerCommand, box  # noqa: F401 (a fixture)

pytestmark = pytest.mark.real

NETLESS = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "--net"]


def require_network_namespaces() -> None:
    """Skip if the network cannot be removed."""
    if not shutil.which("unshare") or subprocess.run([*NETLESS, "true"], capture_output=True).returncode:
        pytest.skip("this machine lets nobody cut the network off: unshare --net")


def make_bundle(argv: list[str], output: Path, **how: object) -> None:
    """Return the words of `envcheck bundle`."""
    words = ["bundle" if word == "provision" else word for word in argv]
    done = subprocess.run([*words, "-o", str(output)], capture_output=True, text=True, timeout=240, **how)  # type: ignore[call-overload]
    assert done.returncode == 0, done.stderr


def list_requirements() -> Iterator[tuple[str, str]]:
    """Write wheels with the names that envcheck itself needs, which a bundle contains too."""
    about = next(d for d in importlib.metadata.distributions(name="envcheck-toolkit") if d.read_text("METADATA"))
    for line in about.requires or ():
        name = Requirement(line).name
        there = next(importlib.metadata.distributions(name=name), None)
        yield name, there.version if there else "99.0"


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[ProvisionCommand]:
    """A machine with an index and a git project, both used by the recipe."""
    stock_index(tmp_path / "index")
    for name, version in list_requirements():
        write_wheel(tmp_path / "index", name, version)
    git = ["git", "-c", "user.name=n", "-c", "user.email=e", "-C", str(tmp_path / "project")]
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "told.txt").write_text("here")
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "one"], ["tag", "v1"]):
        subprocess.run([*git, *words], check=True)
    with serve_index(tmp_path / "index") as served:
        made = ProvisionCommand(tmp_path, served)
        url, where = f"file://{tmp_path / 'project'}", tmp_path / "clone"
        more = f'[[checkouts]]\nsource = "t"\nurl = "{url}"\nref = "v1"\ndirectory = "{where}"\n'
        write_recipe(made.recipes, "alpha")
        text = (made.recipes / "little.toml").read_text()
        (made.recipes / "little.toml").write_text(text + more)
        yield made


def test_without_a_network(machine: ProvisionCommand, tmp_path: Path) -> None:
    """Packages, dependencies and clones are installed from the bundle without any network; a second run does nothing,
    also without the bundle; an undo removes what was unpacked."""
    require_network_namespaces()
    bundle = tmp_path / "little.tar"
    make_bundle(machine.make_argv(), bundle, env=machine.env)
    shutil.rmtree(tmp_path / "project")
    argv = [*NETLESS, sys.executable, "-m", "envcheck", "provision", "--bundle", str(bundle), "--yes"]
    how = {"cwd": tmp_path, "env": machine.env, "capture_output": True, "text": True, "timeout": 120}
    done = subprocess.run(argv, **how)  # type: ignore[call-overload]

    assert done.returncode == 0, done.stdout + done.stderr
    assert machine.read_versions() == "2.0 2.0"
    assert (tmp_path / "clone" / "told.txt").read_text() == "here"
    kept = lockfile.load_lock(machine.lock_path)
    assert [(w.name, w.version) for w in kept.wheels] == [("alpha", "2.0"), ("beta", "2.0")]
    assert len(kept.checkouts) == 1

    again = subprocess.run([*argv, "--json"], **how)  # type: ignore[call-overload]
    plain = machine.run_command("--yes", "--json")

    assert json.loads(again.stdout)["performed"] == json.loads(plain.stdout)["performed"] == []
    assert (again.returncode, plain.returncode) == (0, 0)

    machine.run_command("--undo", "--yes")

    assert not machine.environment_folder.exists()
    assert list((machine.home / "bundles").iterdir()) == []


def test_refused_before_anything(machine: ProvisionCommand, tmp_path: Path) -> None:
    """A bundle that is damaged, truncated, for another machine or another recipe: exit code 1 or 2 with a message, and
    nothing is created."""
    whole = tmp_path / "little.tar"
    make_bundle(machine.make_argv(), whole, env=machine.env)
    damaged, cut = tmp_path / "damaged.tar", tmp_path / "cut.tar"
    content = whole.read_bytes()
    at = content.index(b"alpha/__init__.py")
    damaged.write_bytes(content[:at] + b"X" + content[at + 1 :])
    cut.write_bytes(content[: len(content) // 2])
    head = re.search(rb'\{\s*"schema": 1,.*?\}', content, re.S)
    assert head
    foreign = rewrite_bundle(whole, {"envcheck-bundle.json": head[0].replace(b"x86_64", b"aarch64")})
    shutil.rmtree(machine.home, ignore_errors=True)
    base = [sys.executable, "-m", "envcheck", "provision", "--yes", "--bundle"]
    for file, more, code, told in (
        (damaged, (), 1, "is corrupt: wheels/alpha"),
        (cut, (), 1, "is truncated at"),
        (foreign, (), 1, "was built for aarch64; this machine is x86_64"),
        (tmp_path / "nothing.tar", (), 2, "is not a file"),
        (whole, ("--recipe", "tiny-cpu"), 2, "is for recipe little"),
        (whole, ("--locked", "x"), 2, "--locked cannot be combined with --bundle"),
        (whole, ("--as-script",), 2, "--as-script cannot be combined with --bundle"),
    ):
        done = subprocess.run([*base, str(file), *more], env=machine.env, capture_output=True, text=True, timeout=60)

        assert (done.returncode, told in done.stderr) == (code, True), done.stderr
        assert not machine.home.exists()
        assert not (tmp_path / "clone").exists()


def kill_while_loading(argv: list[str], journal: Path, folder: Path, variables: dict[str, str]) -> None:
    """Run the command and kill it while the image is loaded."""
    child = subprocess.Popen(argv, cwd=folder, env=variables, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_until(lambda: journal.exists() and '"step": "load", "event": "begun"' in journal.read_text())
    child.kill()

    assert child.wait() == -signal.SIGKILL


@pytest.fixture
def elsewhere() -> Iterator[DockerEngine]:
    """An engine without any image."""
    with start_engine() as made:
        yield made


def test_in_a_container(box: ContainerCommand, python_image_here: str, elsewhere: DockerEngine, tmp_path: Path) -> None:  # noqa: F811
    """Image and packages come from the bundle on an empty engine, while index and registry are unreachable, also after
    a SIGKILL during loading; a second run does nothing, and an undo leaves nothing."""
    bundle, home = tmp_path / "boxed.tar", tmp_path / "home"
    make_bundle(box.make_argv(), bundle, cwd=tmp_path, env=box.child_variables)
    shutil.rmtree(home, ignore_errors=True)
    shutil.rmtree(tmp_path / "index")  # the index still answers, and has nothing
    variables = {
        **elsewhere.child_environment,
        "ENVCHECK_HOME": str(home),
        "PYTHONPATH": box.child_variables["PYTHONPATH"],
    }
    argv = [*NETLESS, sys.executable, "-m", "envcheck", "provision", "--bundle", str(bundle), "--yes"]
    how = {"cwd": tmp_path, "env": variables, "capture_output": True, "text": True, "timeout": 240}
    require_network_namespaces()
    kill_while_loading(argv, home / "environments/boxed/.envcheck/journal.jsonl", tmp_path, variables)
    first = subprocess.run(argv, **how)  # type: ignore[call-overload]

    assert first.returncode == 0, first.stdout + first.stderr
    assert "load image" in first.stdout
    told = elsewhere.run_docker("exec", box.name, "python3", "-c", "import first, second; print(second.__version__)")
    assert told.stdout.strip() == "2.1"
    there = elsewhere.run_docker("inspect", "-f", "{{.Image}}", box.name).stdout.strip()
    assert there == box.engine.run_docker("image", "inspect", "-f", "{{.Id}}", python_image_here).stdout.strip()

    second = subprocess.run([*argv, "--json"], **how)  # type: ignore[call-overload]

    assert json.loads(second.stdout)["performed"] == []

    back = subprocess.run([*argv, "--undo"], **how)  # type: ignore[call-overload]

    assert back.returncode == 0, back.stderr
    assert elsewhere.run_docker("images", "-q").stdout == ""
    assert elsewhere.run_docker("ps", "-aq").stdout == ""
    assert not (tmp_path / "data").exists()
