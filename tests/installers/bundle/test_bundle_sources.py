"""Builds, source archives and editable clones in the lock and the bundle, through the command."""

from __future__ import annotations

import hashlib
import json
import platform
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from installers.locks import lockfile
from installers.locks.lockfile import Lock
from tests.installers.images.engine_parts import DockerEngine
from tests.installers.kill_parts import BOUNDARIES, kill_at_boundary
from tests.installers.provision_helpers import ProvisionCommand, serve_index, stock_index, write_recipe, write_wheel
from tests.installers.software.source_parts import (
    HEADERS,
    SETUPTOOLS,
    copy_setuptools,
    make_project,
    require_gcc,
    write_source_archive,
)
from tests.installers.software.test_builds import COMPILE, FILES, LINK
from tests.installers.test_container_provision import ContainerCommand, box  # noqa: F401 (a fixture)
from tests.installers.test_provision_offline import (  # noqa: F401 (a fixture)
    NETLESS,
    elsewhere,
    list_requirements,
    make_bundle,
    require_network_namespaces,
)

pytestmark = pytest.mark.real

CHECKOUT = '[[checkouts]]\nsource = "t"\nurl = "file://{}"\nref = "{}"\ndirectory = "{}"\n{}\n'
BUILD = """
[[builds]]
source = "t"
name = "fast"
checkout = "{clone}"
commands = {commands}
yields = "dist/fast-*.whl"
installs = true
environment = {{ INCLUDE = "{include}" }}
"""


def make_build_commands() -> dict[str, str]:
    commands = [["sh", "-c", COMPILE], ["sh", "-c", LINK], ["{python}", "-m", "pip", "wheel", "-w", "dist", "."]]
    return {"commands": json.dumps(commands), "include": str(HEADERS.parent)}


def make_recipe_text(folder: Path) -> str:
    """Return a recipe with an editable clone and a clone from which a C extension is built."""
    for name in ("project", "fast"):
        shutil.rmtree(folder / name, ignore_errors=True)
    worker, fast = make_project(folder / "project", SETUPTOOLS), make_project(folder / "fast", FILES)
    assert worker and fast
    return (
        CHECKOUT.format(folder / "project", "v1", folder / "worker clone", "editable = true")
        + CHECKOUT.format(folder / "fast", "v1", folder / "fast clone", "")
        + BUILD.format(clone=folder / "fast clone", **make_build_commands())
    )


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[ProvisionCommand]:
    """Return a machine with alpha and its beta, gamma as a source archive, a clone that needs delta, and a build."""
    require_gcc()
    stock_index(tmp_path / "index")
    write_wheel(tmp_path / "index", "delta", "1.5")
    write_source_archive(tmp_path / "index")
    copy_setuptools(tmp_path / "index")
    for name, version in list_requirements():
        write_wheel(tmp_path / "index", name, version)
    with serve_index(tmp_path / "index") as served:
        made = ProvisionCommand(tmp_path, served)
        write_recipe(made.recipes, "alpha", "gamma")
        path = made.recipes / "little.toml"
        path.write_text(path.read_text() + make_recipe_text(tmp_path))
        yield made


CODE = "import alpha, gamma, worker, fast; print(alpha.__version__, gamma.made, worker.says, fast.answer())"


def run_code(folder: Path) -> str:
    return subprocess.run(
        [folder / "bin" / "python", "-c", CODE], capture_output=True, text=True, cwd="/"
    ).stdout.strip()


def read_lock(bundle: Path) -> Lock:
    with tarfile.open(bundle) as packed:
        member = packed.extractfile("envcheck.lock")
        assert member
        return lockfile.parse_lock(member.read().decode(), bundle.name)


def test_all_of_it_without_a_network(machine: ProvisionCommand, tmp_path: Path) -> None:
    """The lock has each build's commit and checksum; the bundle has the builds, a wheel of the source archive beside
    its checksum, and the clone's dependencies.  On a machine without network, compiler, index and git server all of it
    is installed, and nothing is built.
    """
    require_network_namespaces()
    lock, bundle = tmp_path / "l", tmp_path / "little.tar"
    first = machine.run_command("--yes", "--lock", str(lock))
    assert first.returncode == 0, first.stdout + first.stderr
    kept = lockfile.load_lock(lock)
    made = next((tmp_path / "fast clone" / "dist").glob("*.whl"))
    commit = next(each.commit for each in kept.checkouts if each.directory.endswith("fast clone"))
    sums = {each.name: each for each in kept.wheels}

    assert [(b.name, b.path, b.sha256, b.commit) for b in kept.builds] == [
        ("fast", f"dist/{made.name}", hashlib.sha256(made.read_bytes()).hexdigest(), commit)
    ]
    assert (sums["gamma"].file, sums["delta"].version) == ("gamma-1.0.tar.gz", "1.5")

    make_bundle(machine.make_argv(), bundle, env=machine.env)
    packed = read_lock(bundle)
    gamma = next(each for each in packed.wheels if each.name == "gamma")

    assert packed.builds == kept.builds
    assert (gamma.file, gamma.source, gamma.source_sha256) == (
        "gamma-1.0-py3-none-any.whl",
        "gamma-1.0.tar.gz",
        sums["gamma"].sha256,
    )
    assert sorted(each.name for each in packed.wheels) == ["alpha", "beta", "delta", "gamma"]
    with tarfile.open(bundle) as members:
        assert any(name.startswith("tools/setuptools-") for name in members.getnames())

    for name in ("project", "fast", "worker clone", "fast clone", "home", "index"):
        shutil.rmtree(tmp_path / name)
    argv = [*NETLESS, sys.executable, "-m", "envcheck", "provision", "--bundle", str(bundle)]
    bare = machine.env | {"PATH": make_path_without_gcc(tmp_path / "bin")}
    how = {"cwd": tmp_path, "env": bare, "capture_output": True, "text": True, "timeout": 240}
    shown = subprocess.run([*argv, "--dry-run"], **how)  # type: ignore[call-overload]
    done = subprocess.run([*argv, "--yes"], **how)  # type: ignore[call-overload]

    assert "install fast from bundle little.tar" in shown.stdout, shown.stderr
    assert done.returncode == 0, done.stdout + done.stderr
    assert run_code(machine.environment_folder) == "2.0 True 1.5 42"
    assert not (tmp_path / "fast clone" / "trace").exists()
    assert lockfile.load_lock(machine.lock_path).builds == kept.builds

    again = subprocess.run([*argv, "--yes", "--json"], **how)  # type: ignore[call-overload]

    assert json.loads(again.stdout)["performed"] == []


def make_path_without_gcc(folder: Path) -> str:
    """Return a PATH with git and shell tools, without a compiler."""
    folder.mkdir()
    for name in ("unshare", "git", "sh", "nproc", "uname", "find", "test", "env"):
        (folder / name).symlink_to(shutil.which(name) or "/bin/false")
    return str(folder)


@pytest.mark.extended
def test_locked_takes_no_other_result(machine: ProvisionCommand, tmp_path: Path) -> None:
    """With --locked a cached result with the lock's checksum is used; without one nothing is built, and the error says
    which file is needed and how to get it.
    """
    lock = tmp_path / "l"
    assert machine.run_command("--yes", "--lock", str(lock)).returncode == 0
    trace = (tmp_path / "fast clone" / "trace").read_text()
    other = tmp_path / "other"
    done = machine.run_command("--yes", "--locked", str(lock), "--into", str(other))

    assert done.returncode == 0, done.stderr
    assert (run_code(other), (tmp_path / "fast clone" / "trace").read_text()) == ("2.0 True 1.5 42", trace)

    text, known = lock.read_text(), lockfile.load_lock(lock).builds[0]
    lock.write_text(text.replace(known.sha256, "0" * 64))
    refused = machine.run_command("--yes", "--locked", str(lock), "--into", str(other))
    lock.write_text(text.partition("\n[[builds]]")[0])
    lacking = machine.run_command("--yes", "--locked", str(lock), "--into", str(other))

    assert refused.returncode == 1, refused.stdout
    assert f"fast: the lock requires {known.path} with SHA-256 {'0' * 64}" in " ".join(refused.stderr.split())
    assert (lacking.returncode, "no result for build fast" in lacking.stderr) == (1, True)
    assert (tmp_path / "fast clone" / "trace").read_text() == trace


def test_not_built_here(machine: ProvisionCommand, tmp_path: Path) -> None:
    """A bundle of a recipe whose builds this machine never ran is refused with their names; no file is left."""
    words = ["bundle" if word == "provision" else word for word in machine.make_argv()]
    done = subprocess.run(
        [*words, "-o", str(tmp_path / "x.tar")], env=machine.env, capture_output=True, text=True, timeout=240
    )

    assert done.returncode == 4, done.stderr
    assert "fast must be built from source" in done.stderr
    assert not (tmp_path / "x.tar").exists()
    assert not (tmp_path / "fast clone").exists()


@pytest.mark.extended
def test_for_another_machine(machine: ProvisionCommand, tmp_path: Path) -> None:
    """A clone's dependencies are bundled for another processor; a recipe that builds from source there is refused."""
    other = {"x86_64": "aarch64"}.get(platform.machine(), "x86_64")
    words = ["bundle" if word == "provision" else word for word in machine.make_argv()]
    argv = [*words, "-o", str(tmp_path / "x.tar"), "--arch", other]
    how = {"env": machine.env, "capture_output": True, "text": True, "timeout": 240}
    refused = subprocess.run(argv, **how)  # type: ignore[call-overload]
    recipe = machine.recipes / "little.toml"
    recipe.write_text(recipe.read_text().partition("[[builds]]")[0])
    done = subprocess.run(argv, **how)  # type: ignore[call-overload]

    assert (
        refused.returncode,
        f"this machine cannot build for Python 3.{sys.version_info.minor} on {other}" in refused.stderr,
    ) == (1, True), refused.stderr
    assert done.returncode == 0, done.stderr
    assert {"alpha", "beta", "delta", "gamma"} == {each.name for each in read_lock(tmp_path / "x.tar").wheels}
    with tarfile.open(tmp_path / "x.tar") as members:
        assert any(name.startswith("tools/setuptools-") for name in members.getnames())


@pytest.mark.extended
def test_in_a_container(
    box: ContainerCommand,  # noqa: F811
    python_image_here: str,
    elsewhere: DockerEngine,  # noqa: F811
    tmp_path: Path,
) -> None:
    """Wheels are for the image's own Python: source archives are built there, packages of the image are left out, and
    the editable clone is installed without index and git server, also after a SIGKILL at each boundary of loading and
    cloning; an undo leaves nothing in the engine.
    """
    require_network_namespaces()
    index = tmp_path / "index"
    write_wheel(index, "delta", "1.5", needs="pip")  # the image has it
    write_source_archive(index)
    copy_setuptools(index)
    worker = make_project(tmp_path / "project", SETUPTOOLS)
    recipe = tmp_path / "recipes" / "boxed.toml"
    address = recipe.read_text().partition('index = "')[2].partition('"')[0]
    text = recipe.read_text().replace('PIP_BREAK_SYSTEM_PACKAGES = "1"', f'PIP_INDEX_URL = "{address}"')
    more = f'[[packages]]\nname = "gamma"\nindex = "{address}"\n'
    recipe.write_text(text + more + CHECKOUT.format("/work/project", worker, "/opt/worker", "editable = true"))
    (tmp_path / "data").mkdir()
    shutil.move(tmp_path / "project", tmp_path / "data" / "project")
    recipe.write_text(recipe.read_text().replace("file:///work/project", f"file://{tmp_path}/data/project"))
    bundle, home = tmp_path / "boxed.tar", tmp_path / "home"
    make_bundle(box.make_argv(), bundle, cwd=tmp_path, env=box.child_variables)
    left = box.engine.run_docker("ps", "-aq", "--filter", "name=envcheck-bundle-").stdout
    python = box.engine.run_docker(
        "run", "--rm", python_image_here, "python3", "-c", "import sys; print('%d.%d' % sys.version_info[:2])"
    ).stdout.strip()
    lock = read_lock(bundle)

    assert left == ""
    assert (lock.python, sorted(each.name for each in lock.wheels)) == (python, ["delta", "first", "gamma", "second"])
    assert next(each for each in lock.wheels if each.name == "gamma").source == "gamma-1.0.tar.gz"

    shutil.rmtree(home, ignore_errors=True)
    shutil.rmtree(tmp_path / "data")
    shutil.rmtree(index)
    variables = {
        **elsewhere.child_environment,
        "ENVCHECK_HOME": str(home),
        "PYTHONPATH": box.child_variables["PYTHONPATH"],
    }
    argv = [*NETLESS, sys.executable, "-m", "envcheck", "provision", "--bundle", str(bundle), "--yes"]
    for step in ("load", "clone"):
        for event, when in BOUNDARIES[:-1]:
            kill_at_boundary(argv, step, event, when, variables, tmp_path)
    done = subprocess.run(argv, cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=400)

    assert done.returncode == 0, done.stdout + done.stderr
    code = "import gamma, worker; print(gamma.made, worker.says)"
    assert elsewhere.run_docker("exec", box.name, "python3", "-c", code).stdout.strip() == "True 1.5"

    back = subprocess.run([*argv, "--undo"], cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=120)

    assert back.returncode == 0, back.stderr
    assert elsewhere.run_docker("images", "-q").stdout + elsewhere.run_docker("ps", "-aq").stdout == ""
