"""Builds from source: a C extension with real gcc and pip, failing, interrupted, resumed, cached; rules on data."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from envcheck.core.errors import StepError, UsageError
from installers.plan.requirement import SatisfiedRequirement, UnmetRequirement
from installers.recipes import catalogue
from installers.recipes.build_rules import fill_tokens
from installers.recipes.checkout_rules import COMMIT
from installers.recipes.recipe import BuildTool, Checkout, RecipeBuild
from installers.recipes.validation import check_recipe
from installers.software import build_cache, builds, checkouts
from installers.software.builds import BuildSite, inspect_build, plan_build, run_build
from installers.state import checksums
from installers.targets.target import VenvTarget
from tests.installers.provision_helpers import wait_until

ROOT = Path(__file__).parents[3]
HEADERS = Path(sysconfig.get_paths()["include"]) / "Python.h"
real = pytest.mark.skipif(
    not all(map(shutil.which, ("git", "gcc"))) or not HEADERS.exists(),
    reason="git, gcc or Python's headers are missing",
)
SOURCE = """
#include <Python.h>
static PyObject *answer(PyObject *self, PyObject *none) { return PyLong_FromLong(42); }
static PyMethodDef methods[] = {{"answer", answer, METH_NOARGS, ""}, {0}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "fast", 0, -1, methods};
PyMODINIT_FUNC PyInit_fast(void) { return PyModule_Create(&module); }
"""
BACKEND = """
import os, sys, sysconfig, zipfile
def build_wheel(folder, config_settings=None, metadata_directory=None):
    tag = "cp%d%d" % sys.version_info[:2]
    tag = "-".join((tag, tag, sysconfig.get_platform().replace("-", "_").replace(".", "_")))
    name, info = "fast-1.0-" + tag + ".whl", "fast-1.0.dist-info"
    files = {"fast.so": open("fast.so", "rb").read(),
             info + "/METADATA": b"Metadata-Version: 2.1\\nName: fast\\nVersion: 1.0\\n",
             info + "/WHEEL": ("Wheel-Version: 1.0\\nRoot-Is-Purelib: false\\nTag: " + tag + "\\n").encode()}
    files[info + "/RECORD"] = "".join(path + ",,\\n" for path in [*files, info + "/RECORD"]).encode()
    with zipfile.ZipFile(os.path.join(folder, name), "w") as archive:
        for path, content in files.items():
            archive.writestr(path, content)
    return name
"""
FILES = {
    "fast.c": SOURCE,
    "backend.py": BACKEND,
    "pyproject.toml": '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n',
    ".gitignore": "*.o\n*.so\ntrace\nhold\ndist\n",
}
COMPILE = "echo compile >> trace; exec gcc -c -fPIC $MORE -I$INCLUDE fast.c -o fast.o"
LINK = "echo link >> trace; while test -e hold; do sleep 0.05; done; exec gcc -shared fast.o -o fast.so"


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("origin")
    for name, text in FILES.items():
        (folder / name).write_text(text)
    who = ["-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["init", "-q"], ["add", "."], [*who, "commit", "-qm", "one"]):
        subprocess.run(["git", *words], cwd=folder, check=True)
    return folder


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bare") / "venv"
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    return folder


class BuildHost:
    """A host with its own environment and clone; `cache` may be shared."""

    def __init__(self, folder: Path, bare: Path, origin: Path, cache: Path) -> None:
        shutil.copytree(bare, folder / "venv", symlinks=True)
        self.ground = BuildSite(VenvTarget(folder / "venv"), cache=cache)
        self.checkout = Checkout(f"file://{origin}", read_commit(origin), str(folder / "my clone"))
        self.clone = Path(self.checkout.directory)
        self.said: list[str] = []
        checkouts.update_clone(self.ground.target, self.checkout, self.said.append)
        self.build = RecipeBuild(
            name="fast",
            checkout=self.checkout.directory,
            commands=(("sh", "-c", COMPILE), ("sh", "-c", LINK), ("{python}", "-m", "pip", "wheel", "-w", "dist", ".")),
            yields="dist/fast-*.whl",
            installs=True,
            prerequisites=(BuildTool("gcc", remedy="apt-get install gcc"),),
            environment={"INCLUDE": str(HEADERS.parent), "PIP_NO_INDEX": "1"},
        )

    def run_build(self, **changed: object) -> builds.BuildResult:
        build = replace(self.build, **changed)  # type: ignore[arg-type]
        return run_build(self.ground, build, self.checkout.ref, self.said.append)

    @property
    def build_need(self) -> UnmetRequirement | SatisfiedRequirement:
        return plan_build(self.build, inspect_build(self.ground, self.build, self.checkout.ref))

    @property
    def trace_words(self) -> list[str]:
        path = self.clone / "trace"
        return path.read_text().split() if path.exists() else []

    @property
    def log_text(self) -> str:
        return (self.ground.target.notes_folder / "builds" / "fast.log").read_text()

    def import_answer(self) -> str:
        argv = [self.ground.target.python, "-c", "import fast; print(fast.answer())"]
        return subprocess.run(argv, capture_output=True, text=True).stdout.strip()


def read_commit(origin: Path) -> str:
    return subprocess.run(["git", "rev-parse", "HEAD"], cwd=origin, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def site(tmp_path: Path, bare: Path, origin: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[BuildHost]:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    yield BuildHost(tmp_path / "one", bare, origin, tmp_path / "cache")


@pytest.mark.real
@real
def test_built_and_kept(site: BuildHost, tmp_path: Path, bare: Path, origin: Path) -> None:
    """A build is installed and works, is satisfied afterwards, and another host installs it without a compiler."""
    assert isinstance(site.build_need, UnmetRequirement)
    made = site.run_build()

    assert (site.import_answer(), site.trace_words, made.from_cache) == ("42", ["compile", "link"], False)
    assert made.wheel and made.wheel.sha256 == checksums.compute_sha256(next(site.clone.glob("dist/*.whl")))
    assert isinstance(site.build_need, SatisfiedRequirement)
    assert "$ sh -c 'echo compile" in site.log_text

    other = BuildHost(tmp_path / "two", bare, origin, tmp_path / "cache")
    other.build = replace(site.build, checkout=other.build.checkout)
    planned = other.build_need
    assert isinstance(planned, UnmetRequirement) and "from the build cache" in planned.title
    taken = other.run_build()
    assert (other.import_answer(), other.trace_words, taken.from_cache, taken.key) == ("42", [], True, made.key)
    assert other.ground.target.read_environment().packages["fast"] == "1.0"


@pytest.mark.real
@real
def test_damaged_is_not_used(site: BuildHost) -> None:
    """A cached file that has changed is not installed: it is rebuilt from the first command in a new clone."""
    made = site.run_build()
    made.kept[0].file.write_bytes(b"rotten")
    again = site.run_build()
    again.kept[0].file.write_bytes(b"rotten")
    shutil.rmtree(site.clone)
    checkouts.update_clone(site.ground.target, site.checkout, site.said.append)
    last = site.run_build()

    assert (made.from_cache, again.from_cache, last.from_cache) == (False, False, False)
    assert (site.import_answer(), site.trace_words) == ("42", ["compile", "link"])


@pytest.mark.real
@real
def test_failing_command(site: BuildHost) -> None:
    """A compiler's error quotes its output and the log's path; completed commands do not run again."""
    (site.clone / "fast.o").mkdir()
    with pytest.raises(StepError, match=r"failed with status 1:\n(.|\n)*fast\.o") as caught:
        site.run_build()
    assert "fast.log; run the command again to continue at this build command" in caught.value.next_step
    (site.clone / "fast.o").rmdir()
    source = (site.clone / "fast.c").read_text()
    (site.clone / "fast.c").write_text("int main( {")
    with pytest.raises(StepError, match="error:"):
        site.run_build()
    (site.clone / "fast.c").write_text(source)
    link = site.build.commands[1]
    with pytest.raises(StepError, match="failed with status 3"):
        site.run_build(commands=(site.build.commands[0], ("sh", "-c", "exit 3"), site.build.commands[2]))
    assert link and site.trace_words == ["compile"] * 3


@pytest.mark.real
@real
def test_killed_and_resumed(site: BuildHost, tmp_path: Path) -> None:
    """After kill -9 in the second command the next run resumes there, with the same result."""
    (site.clone / "hold").touch()
    program = (
        "import sys; from pathlib import Path; from installers.recipes.recipe import *\n"
        "from installers.software import builds; from installers.targets.target import VenvTarget\n"
        "ground = builds.BuildSite(VenvTarget(Path(sys.argv[1])), cache=Path(sys.argv[2]))\n"
        "builds.run_build(ground, eval(sys.argv[4]), sys.argv[3], print)"
    )
    cache, ref = str(tmp_path / "cache"), site.checkout.ref
    argv = [sys.executable, "-c", program, str(site.ground.target.notes_folder.parent), cache, ref, repr(site.build)]
    child = subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.DEVNULL)
    wait_until(lambda: site.trace_words == ["compile", "link"], 30)
    family = psutil.Process(child.pid).children(recursive=True)
    child.kill()
    child.wait()
    for process in family:
        process.kill()
    (site.clone / "hold").unlink()
    planned = site.build_need

    assert isinstance(planned, UnmetRequirement) and "continues at command 2" in planned.why
    site.run_build()
    assert (site.import_answer(), site.trace_words) == ("42", ["compile", "link", "link"])
    assert not [path for path in (tmp_path / "cache").iterdir() if path.name.endswith(".new")]


@pytest.mark.real
@real
def test_prerequisites_first(site: BuildHost) -> None:
    """All missing prerequisites are reported before a command runs."""
    tools = (
        *site.build.prerequisites,
        BuildTool("no-such-nvcc", remedy="use CUDA's image"),
        BuildTool(file="/no/corex"),
    )
    site.build = replace(site.build, prerequisites=tools)
    planned = site.build_need

    assert (
        isinstance(planned, UnmetRequirement) and "building fast requires no-such-nvcc, /no/corex" in planned.obstacle
    )
    with pytest.raises(StepError, match="building fast requires no-such-nvcc, /no/corex") as caught:
        site.run_build()
    assert caught.value.next_step == "use CUDA's image"
    assert site.trace_words == []


@pytest.mark.real
@real
def test_content_is_no_proof(site: BuildHost) -> None:
    """Commands that succeed without a result are a failure, and so is a build beyond its deadline."""
    with pytest.raises(StepError, match=r"all commands succeeded, but dist/fast-\*\.whl was not found"):
        site.run_build(commands=(("echo", "all is well"),))
    with pytest.raises(StepError, match=r"build fast exceeded its limit of 0\.0 h"):
        site.run_build(commands=(("sleep", "30"),), deadline_s=1)
    assert site.trace_words == []


@pytest.mark.real
@real
def test_path_variables(site: BuildHost) -> None:
    """Prepended path variables come first, and the rest is preserved."""
    tools = site.clone / "bin"
    tools.mkdir()
    (tools / "gcc").write_text("#!/bin/sh\necho ours; exit 9\n")
    (tools / "gcc").chmod(0o755)

    with pytest.raises(StepError, match=r"failed with status 9:\n +ours"):
        site.run_build(prepend={"PATH": str(tools)})


# ---- by data alone

BUILD = RecipeBuild("one", "/w/p", (("make", "-j{jobs}"),), "*.so")


def test_key() -> None:
    """The key depends on source, commands, Python, machine and earlier builds, not on the deadline."""
    base = build_cache.compute_key(BUILD, "c1", "3.10.2", "x86_64")
    same = build_cache.compute_key(replace(BUILD, deadline_s=1, space_gib=9.0), "c1", "3.10.9", "x86_64")
    others = {
        build_cache.compute_key(BUILD, "c2", "3.10.2", "x86_64"),
        build_cache.compute_key(replace(BUILD, commands=(("make",),)), "c1", "3.10.2", "x86_64"),
        build_cache.compute_key(BUILD, "c1", "3.11.2", "x86_64"),
        build_cache.compute_key(BUILD, "c1", "3.10.2", "aarch64"),
        build_cache.compute_key(BUILD, "c1", "3.10.2", "x86_64", ("before",)),
    }

    assert base == same
    assert len(others | {base}) == 6


def test_compilers() -> None:
    """As many compilers as processors and memory allow, at least one; unknown memory is ignored."""
    assert builds.count_jobs(64, "MemTotal: 9 kB\nMemAvailable:   16777216 kB\n") == 8
    assert builds.count_jobs(4, "MemAvailable:   16777216 kB\n") == 4
    assert builds.count_jobs(4, "MemAvailable:   1024 kB\n") == 1
    assert builds.count_jobs(4, "") == 4


def test_tokens() -> None:
    """Tokens are replaced; syntax of the shell and CMake is preserved."""
    assert fill_tokens("-j{jobs} ${FLAGCX_LIB} ${jobs} {other}", {"jobs": "3"}) == "-j3 ${FLAGCX_LIB} ${jobs} {other}"


HETERO = next(recipe for recipe in catalogue.load_all() if recipe.name == "ernie-21b-hetero")


@pytest.mark.parametrize(
    ("changed", "words"),
    (
        ({"name": "Up"}, "expected a unique name"),
        ({"checkout": "/else"}, "one of the checkouts"),
        ({"role": "ascend"}, "no job has the role"),
        ({"yields": "../../etc/*"}, "expected a pattern inside the checkout"),
        ({"yields": "/etc/*"}, "expected a pattern inside the checkout"),
        ({"yields": "a.so", "installs": True}, "expected a wheel pattern"),
        ({"commands": ()}, "at least one"),
        ({"commands": (("make", "{nothing}"),)}, "unknown placeholder {nothing}; known: checkout"),
        ({"after": ("later",)}, "'later' is not a build listed before this one"),
        ({"prerequisites": (BuildTool(),)}, "a program or a file"),
        ({"environment": {"A B": ""}}, "'A B' is not a valid environment variable name"),
    ),
)
def test_rules(changed: dict[str, object], words: str) -> None:
    """An invalid build, or one outside its checkout, is refused by key."""
    wrong = replace(HETERO.builds[0], **changed)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=words):
        check_recipe(replace(HETERO, builds=(wrong,)))


def test_both_nodes_pinned() -> None:
    """Both nodes build Paddle with FlagCX from one pinned commit."""
    pinned = {c.directory: c.ref for c in HETERO.checkouts}

    assert all(COMMIT.fullmatch(pinned[build.checkout]) for build in HETERO.builds)
    assert [b.name for b in builds.list_builds(HETERO, "nvidia")] == ["paddlepaddle-gpu"]
    assert [b.name for b in builds.list_builds(HETERO, "iluvatar")] == ["paddlepaddle", "flagcx", "paddle-iluvatar-gpu"]
    assert {builds.choose_commit(b, HETERO.checkouts, {}) for b in HETERO.builds} == {pinned[HETERO.builds[0].checkout]}


def test_edits_of_the_copy(tmp_path: Path) -> None:
    """The plugin's commands enable FlagCX in a copy and leave the clone unchanged."""
    build = HETERO.builds[-1]
    own = tmp_path / "backends" / "iluvatar_gpu"
    own.mkdir(parents=True)
    script = 'BUILD_WITH_FLAGCX=0\nFLAGCX_ROOT="/workspace/FlagCX"\necho $BUILD_WITH_FLAGCX $FLAGCX_ROOT > said\n'
    (own / "build_paddle.sh").write_text(script)
    (own / "CMakeLists.txt").write_text("  ixattnbkd\n          nccl\n          # change nccl if ...\n")
    for command in build.commands:
        words = [fill_tokens(word, {"checkout": str(tmp_path)}) for word in command]
        subprocess.run(words, cwd=tmp_path, check=True, env=dict(os.environ))

    copy = tmp_path / "backends" / "iluvatar_gpu.flagcx"
    assert (copy / "said").read_text() == f"1 {tmp_path}/Paddle/third_party/flagcx\n"
    assert "          ${FLAGCX_LIB}\n          # change nccl" in (copy / "CMakeLists.txt").read_text()
    assert (own / "build_paddle.sh").read_text() == script
