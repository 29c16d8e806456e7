"""Builds from source: a real C extension by a real gcc and pip, failing, cut, resumed, kept; the rules by data."""

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
from installers.plan.requirement import Need, Satisfied
from installers.recipes import catalogue
from installers.recipes.build_rules import filled
from installers.recipes.checkout_rules import COMMIT
from installers.recipes.recipe import Build, Checkout, Tool
from installers.recipes.recipe_rules import check
from installers.software import build_cache, builds, checkouts
from installers.software.builds import BuildSite, need, perform, there
from installers.state import checksums
from installers.targets.target import VenvTarget
from tests.installers.provision_helpers import until

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


class Site:
    """A host of its own: environment, clone, and the build in it; `cache` may be another's."""

    def __init__(self, folder: Path, bare: Path, origin: Path, cache: Path) -> None:
        shutil.copytree(bare, folder / "venv", symlinks=True)
        self.ground = BuildSite(VenvTarget(folder / "venv"), cache=cache)
        self.checkout = Checkout(f"file://{origin}", commit_of(origin), str(folder / "my clone"))
        self.clone = Path(self.checkout.directory)
        self.said: list[str] = []
        checkouts.perform(self.ground.target, self.checkout, self.said.append)
        self.build = Build(
            name="fast",
            checkout=self.checkout.directory,
            commands=(("sh", "-c", COMPILE), ("sh", "-c", LINK), ("{python}", "-m", "pip", "wheel", "-w", "dist", ".")),
            yields="dist/fast-*.whl",
            installs=True,
            prerequisites=(Tool("gcc", remedy="apt-get install gcc"),),
            environment={"INCLUDE": str(HEADERS.parent), "PIP_NO_INDEX": "1"},
        )

    def run(self, **changed: object) -> builds.BuildResult:
        build = replace(self.build, **changed)  # type: ignore[arg-type]
        return perform(self.ground, build, self.checkout.ref, self.said.append)

    @property
    def planned(self) -> Need | Satisfied:
        return need(self.build, there(self.ground, self.build, self.checkout.ref))

    @property
    def trace(self) -> list[str]:
        path = self.clone / "trace"
        return path.read_text().split() if path.exists() else []

    @property
    def log(self) -> str:
        return (self.ground.target.notes / "builds" / "fast.log").read_text()

    def answer(self) -> str:
        argv = [self.ground.target.python, "-c", "import fast; print(fast.answer())"]
        return subprocess.run(argv, capture_output=True, text=True).stdout.strip()


def commit_of(origin: Path) -> str:
    return subprocess.run(["git", "rev-parse", "HEAD"], cwd=origin, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def site(tmp_path: Path, bare: Path, origin: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    yield Site(tmp_path / "one", bare, origin, tmp_path / "cache")


@pytest.mark.real
@real
def test_built_and_kept(site: Site, tmp_path: Path, bare: Path, origin: Path) -> None:
    """It is built, installed and works, is so at the second look, and another host takes it without a compiler."""
    assert isinstance(site.planned, Need)
    made = site.run()

    assert (site.answer(), site.trace, made.from_cache) == ("42", ["compile", "link"], False)
    assert made.wheel and made.wheel.sha256 == checksums.sha256(next(site.clone.glob("dist/*.whl")))
    assert isinstance(site.planned, Satisfied)
    assert "$ sh -c 'echo compile" in site.log

    other = Site(tmp_path / "two", bare, origin, tmp_path / "cache")
    other.build = replace(site.build, checkout=other.build.checkout)
    planned = other.planned
    assert isinstance(planned, Need) and "from the cache" in planned.title
    taken = other.run()
    assert (other.answer(), other.trace, taken.from_cache, taken.key) == ("42", [], True, made.key)
    assert other.ground.target.environment().packages["fast"] == "1.0"


@pytest.mark.real
@real
def test_damaged_is_not_used(site: Site) -> None:
    """A kept file that is not what it was is not installed: it is made anew, from the first command in a new clone."""
    made = site.run()
    made.kept[0].file.write_bytes(b"rotten")
    again = site.run()
    again.kept[0].file.write_bytes(b"rotten")
    shutil.rmtree(site.clone)
    checkouts.perform(site.ground.target, site.checkout, site.said.append)
    last = site.run()

    assert (made.from_cache, again.from_cache, last.from_cache) == (False, False, False)
    assert (site.answer(), site.trace) == ("42", ["compile", "link"])


@pytest.mark.real
@real
def test_failing_command(site: Site) -> None:
    """A compiler's error is told with its words and the log's place; what was done before is not done again."""
    (site.clone / "fast.o").mkdir()
    with pytest.raises(StepError, match=r"ended with 1:\n(.|\n)*fast\.o") as caught:
        site.run()
    assert "fast.log; repeated, it goes on at this command" in caught.value.next_step
    (site.clone / "fast.o").rmdir()
    source = (site.clone / "fast.c").read_text()
    (site.clone / "fast.c").write_text("int main( {")
    with pytest.raises(StepError, match="error:"):
        site.run()
    (site.clone / "fast.c").write_text(source)
    link = site.build.commands[1]
    with pytest.raises(StepError, match="ended with 3"):
        site.run(commands=(site.build.commands[0], ("sh", "-c", "exit 3"), site.build.commands[2]))
    assert link and site.trace == ["compile"] * 3


@pytest.mark.real
@real
def test_killed_and_resumed(site: Site, tmp_path: Path) -> None:
    """kill -9 in the middle of the second command: the next run goes on there, and ends as an uncut one."""
    (site.clone / "hold").touch()
    program = (
        "import sys; from pathlib import Path; from installers.recipes.recipe import *\n"
        "from installers.software import builds; from installers.targets.target import VenvTarget\n"
        "ground = builds.BuildSite(VenvTarget(Path(sys.argv[1])), cache=Path(sys.argv[2]))\n"
        "builds.perform(ground, eval(sys.argv[4]), sys.argv[3], print)"
    )
    cache, ref = str(tmp_path / "cache"), site.checkout.ref
    argv = [sys.executable, "-c", program, str(site.ground.target.notes.parent), cache, ref, repr(site.build)]
    child = subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.DEVNULL)
    until(lambda: site.trace == ["compile", "link"], 30)
    family = psutil.Process(child.pid).children(recursive=True)
    child.kill()
    child.wait()
    for process in family:
        process.kill()
    (site.clone / "hold").unlink()
    planned = site.planned

    assert isinstance(planned, Need) and "goes on at command 2" in planned.why
    site.run()
    assert (site.answer(), site.trace) == ("42", ["compile", "link", "link"])
    assert not [path for path in (tmp_path / "cache").iterdir() if path.name.endswith(".new")]


@pytest.mark.real
@real
def test_prerequisites_first(site: Site) -> None:
    """What is missing is told, all of it, before a command is run."""
    tools = (*site.build.prerequisites, Tool("no-such-nvcc", remedy="use CUDA's image"), Tool(file="/no/corex"))
    site.build = replace(site.build, prerequisites=tools)
    planned = site.planned

    assert isinstance(planned, Need) and "cannot be built without no-such-nvcc, /no/corex" in planned.obstacle
    with pytest.raises(StepError, match="cannot be built without no-such-nvcc, /no/corex") as caught:
        site.run()
    assert caught.value.next_step == "use CUDA's image"
    assert site.trace == []


@pytest.mark.real
@real
def test_content_is_no_proof(site: Site) -> None:
    """Commands that end well and make nothing are a failure, and so is a build without an end."""
    with pytest.raises(StepError, match=r"ended well, yet there is no dist/fast-\*\.whl"):
        site.run(commands=(("echo", "all is well"),))
    with pytest.raises(StepError, match=r"was not built in 0\.0 hours"):
        site.run(commands=(("sleep", "30"),), deadline_s=1)
    assert site.trace == []


@pytest.mark.real
@real
def test_path_variables(site: Site) -> None:
    """What goes in front of a path variable is in front, and the rest stays."""
    tools = site.clone / "bin"
    tools.mkdir()
    (tools / "gcc").write_text("#!/bin/sh\necho ours; exit 9\n")
    (tools / "gcc").chmod(0o755)

    with pytest.raises(StepError, match=r"ended with 9:\n +ours"):
        site.run(prepend={"PATH": str(tools)})


# ---- by data alone

BUILD = Build("one", "/w/p", (("make", "-j{jobs}"),), "*.so")


def test_key() -> None:
    """The key changes with source, commands, Python, machine and what was built before; not with a deadline."""
    base = build_cache.key(BUILD, "c1", "3.10.2", "x86_64")
    same = build_cache.key(replace(BUILD, deadline_s=1, space_gib=9.0), "c1", "3.10.9", "x86_64")
    others = {
        build_cache.key(BUILD, "c2", "3.10.2", "x86_64"),
        build_cache.key(replace(BUILD, commands=(("make",),)), "c1", "3.10.2", "x86_64"),
        build_cache.key(BUILD, "c1", "3.11.2", "x86_64"),
        build_cache.key(BUILD, "c1", "3.10.2", "aarch64"),
        build_cache.key(BUILD, "c1", "3.10.2", "x86_64", ("before",)),
    }

    assert base == same
    assert len(others | {base}) == 6


def test_compilers() -> None:
    """As many compilers as processors and memory bear, at least one; unknown memory does not count."""
    assert builds.jobs(64, "MemTotal: 9 kB\nMemAvailable:   16777216 kB\n") == 8
    assert builds.jobs(4, "MemAvailable:   16777216 kB\n") == 4
    assert builds.jobs(4, "MemAvailable:   1024 kB\n") == 1
    assert builds.jobs(4, "") == 4


def test_tokens() -> None:
    """Tokens are filled in; what is a shell's or CMake's own stays."""
    assert filled("-j{jobs} ${FLAGCX_LIB} ${jobs} {other}", {"jobs": "3"}) == "-j3 ${FLAGCX_LIB} ${jobs} {other}"


HETERO = next(recipe for recipe in catalogue.load_all() if recipe.name == "ernie-21b-hetero")


@pytest.mark.parametrize(
    ("changed", "words"),
    (
        ({"name": "Up"}, "expected a name of its own"),
        ({"checkout": "/else"}, "one of the checkouts"),
        ({"role": "ascend"}, "no job has the role"),
        ({"yields": "../../etc/*"}, "pattern below the checkout"),
        ({"yields": "/etc/*"}, "pattern below the checkout"),
        ({"yields": "a.so", "installs": True}, "pattern of a wheel"),
        ({"commands": ()}, "at least one"),
        ({"commands": (("make", "{nothing}"),)}, "stands for nothing"),
        ({"after": ("later",)}, "no build before this one"),
        ({"prerequisites": (Tool(),)}, "a program or a file"),
        ({"environment": {"A B": ""}}, "no name of an environment variable"),
    ),
)
def test_rules(changed: dict[str, object], words: str) -> None:
    """A build that cannot be meant, or leaves its checkout, is refused with its key."""
    wrong = replace(HETERO.builds[0], **changed)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=words):
        check(replace(HETERO, builds=(wrong,)))


def test_both_nodes_pinned() -> None:
    """Each node builds a Paddle that knows FlagCX, from one pinned commit on both."""
    pinned = {c.directory: c.ref for c in HETERO.checkouts}

    assert all(COMMIT.fullmatch(pinned[build.checkout]) for build in HETERO.builds)
    assert [b.name for b in builds.of_role(HETERO, "nvidia")] == ["paddlepaddle-gpu"]
    assert [b.name for b in builds.of_role(HETERO, "iluvatar")] == ["paddlepaddle", "flagcx", "paddle-iluvatar-gpu"]
    assert {builds.commit_of(b, HETERO.checkouts, {}) for b in HETERO.builds} == {pinned[HETERO.builds[0].checkout]}


def test_edits_of_the_copy(tmp_path: Path) -> None:
    """The plugin's commands switch FlagCX on in a copy, and leave the clone as it was."""
    build = HETERO.builds[-1]
    own = tmp_path / "backends" / "iluvatar_gpu"
    own.mkdir(parents=True)
    script = 'BUILD_WITH_FLAGCX=0\nFLAGCX_ROOT="/workspace/FlagCX"\necho $BUILD_WITH_FLAGCX $FLAGCX_ROOT > said\n'
    (own / "build_paddle.sh").write_text(script)
    (own / "CMakeLists.txt").write_text("  ixattnbkd\n          nccl\n          # change nccl if ...\n")
    for command in build.commands:
        words = [filled(word, {"checkout": str(tmp_path)}) for word in command]
        subprocess.run(words, cwd=tmp_path, check=True, env=dict(os.environ))

    copy = tmp_path / "backends" / "iluvatar_gpu.flagcx"
    assert (copy / "said").read_text() == f"1 {tmp_path}/Paddle/third_party/flagcx\n"
    assert "          ${FLAGCX_LIB}\n          # change nccl" in (copy / "CMakeLists.txt").read_text()
    assert (own / "build_paddle.sh").read_text() == script
