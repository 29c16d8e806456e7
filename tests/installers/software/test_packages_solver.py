"""pip is asked first and its answer judged: against a real pip, a real index and real environments; rules by data."""

from __future__ import annotations

import dataclasses
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envcheck.compat import judging, patterns
from envcheck.compat.model import Confidence
from envcheck.core.errors import StepError
from installers.locks.lockfile import Wheel
from installers.recipes.recipe import Package
from installers.software import packages, solver
from installers.software.packages import Pip, PipError
from installers.software.solver import PipAnswer, ResolvedPackage
from installers.targets.target import VenvTarget
from tests.installers.provision_helpers import Index, _Handler, serving, stock, wheel


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with pip alone, to be copied."""
    folder = tmp_path_factory.mktemp("bare") / "venv"
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    return folder


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    stock(tmp_path / "index")
    with serving(tmp_path / "index") as server:
        yield server


@dataclasses.dataclass
class Place:
    pip: Pip
    said: list[str]
    folder: Path

    def install(self, *wanted: str, others: tuple[Package, ...] = (), force: bool = False) -> tuple[Wheel, ...]:
        asked = [Package(*text.partition(" ")[::2]) for text in wanted]
        return packages.install(self.pip, asked, others, force=force)

    @property
    def versions(self) -> dict[str, str]:
        there = dict(self.pip.target.environment().packages)
        return {name: version for name, version in there.items() if name not in ("pip", "setuptools")}


@pytest.fixture
def place(bare: Path, tmp_path: Path, index: Index, monkeypatch: pytest.MonkeyPatch) -> Place:
    folder = tmp_path / "venv with a space"
    shutil.copytree(bare, folder, symlinks=True)
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    for name, value in (("CONFIG_FILE", os.devnull), ("INDEX_URL", index.url), ("RETRIES", "0")):
        monkeypatch.setenv(f"PIP_{name}", value)
    monkeypatch.setenv("PIP_CACHE_DIR", str(tmp_path / "cache"))
    said: list[str] = []
    return Place(Pip(VenvTarget(folder), said.append), said, tmp_path)


@pytest.mark.real
def test_fetched_once_and_told(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Asking first costs no second download, though the index allows no caching; the lock gets name, file and hash."""
    asked: list[str] = []
    serve = _Handler.do_GET
    monkeypatch.setattr(_Handler, "do_GET", lambda self: (asked.append(self.path), serve(self))[1])

    found = place.install("alpha ==2.0")

    assert place.versions == {"alpha": "2.0", "beta": "2.0"}
    assert sorted(path for path in asked if path.endswith(".whl")) == [
        "/alpha/alpha-2.0-py3-none-any.whl",
        "/beta/beta-2.0-py3-none-any.whl",
    ]
    assert next((w.name, w.file, len(w.sha256)) for w in found) == ("alpha", "alpha-2.0-py3-none-any.whl", 64)
    assert not list((place.folder / "venv with a space" / ".envcheck" / "wheels").iterdir())
    assert not any(line.startswith("ENVCHECK") for line in place.said)


@pytest.mark.real
def test_second_time_nothing(place: Place) -> None:
    """What is there already is not installed again, unless nothing there is to be trusted."""
    place.install("beta ==1.0")
    again = place.install("beta ==1.0")
    forced = place.install("beta ==1.0", force=True)

    assert (again, [w.version for w in forced]) == ((), ["1.0"])


def refused(place: Place, *wanted: str) -> PipError:
    before = place.versions
    with pytest.raises(PipError) as caught:
        place.install(*wanted)

    assert caught.value.harmless and caught.value.code == 4
    assert place.versions == before
    return caught.value


@pytest.mark.real
def test_plugin_of_another_version(place: Place) -> None:
    """A device plugin of another version than the framework is refused before anything is installed."""
    root = place.folder / "index"
    wheel(root, "paddle_custom_npu", "3.0.0", {"plugin.py": ""})

    err = refused(place, "paddlepaddle ==3.1.0", "paddle-custom-npu")

    assert "paddle-custom-npu 3.0.0 is made for paddlepaddle 3.0.0, and paddlepaddle is 3.1.0" in err.message
    assert "same version" in err.next_step


@pytest.mark.real
def test_numpy_under_others(place: Place) -> None:
    """A numpy that what is there already was not made for is refused, which pip would only have warned of."""
    root = place.folder / "index"
    wheel(root, "compiled", "1.0", needs="numpy<2")
    wheel(root, "numpy", "2.1")
    wheel(root, "eager", "1.0", needs="numpy>=2")
    place.install("compiled")

    err = refused(place, "eager")

    assert place.versions["numpy"] == "1.0"
    assert "numpy 2.1 would be there, and compiled 1.0 wants numpy<2" in err.message


@pytest.mark.real
def test_older_plan_kept(place: Place) -> None:
    """A further package of the recipe is a limit: it stays in its range."""
    place.install("alpha", others=(Package("beta", "==2.0"),))

    assert place.versions["beta"] == "2.0"
    with pytest.raises(PipError, match=r"contradict|nothing that fits"):
        place.install("alpha ==2.0", others=(Package("beta", "<2"),), force=True)


BACKEND = """
import os, zipfile
NAME = {name!r}
def build_wheel(folder, config_settings=None, metadata_directory=None):
    info = NAME + "-1.0.dist-info"
    about = "Metadata-Version: 2.1\\nName: " + NAME + "\\nVersion: 1.0\\n"
    files = {{NAME + ".py": "x = 1\\n", info + "/METADATA": about,
             info + "/WHEEL": "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n"}}
    with zipfile.ZipFile(os.path.join(folder, NAME + "-1.0-py3-none-any.whl"), "w") as archive:
        for path, text in [*files.items(), (info + "/RECORD", "".join(f + ",,\\n" for f in files))]:
            archive.writestr(path, text)
    return NAME + "-1.0-py3-none-any.whl"
"""
PROJECT = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'


def sdist(index: Path, name: str, **more: str) -> None:
    """A source archive in the index that builds itself, since the index has nothing to build it with."""
    folder = index / name
    folder.mkdir(parents=True)
    about = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"
    own = {"pyproject.toml": PROJECT, "PKG-INFO": about, "backend.py": BACKEND.format(name=name)}
    with tarfile.open(folder / f"{name}-1.0.tar.gz", "w:gz") as archive:
        for inside, text in {**own, **more}.items():
            entry = tarfile.TarInfo(f"{name}-1.0/{inside}")
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    (folder / "index.html").write_text(f'<a href="{name}-1.0.tar.gz">{name}-1.0.tar.gz</a>')


@pytest.mark.real
def test_sources(place: Place) -> None:
    """A source archive of Python alone is installed; one that holds C is refused, with the file's name."""
    sdist(place.folder / "index", "plainly", **{"tests/speed.c": "int x;\n"})
    sdist(place.folder / "index", "quickly", **{"src/fast.c": "int x;\n"})

    err = refused(place, "quickly")
    place.install("plainly")

    assert "source would have to be compiled (quickly-1.0/src/fast.c)" in err.message
    assert place.versions["plainly"] == "1.0"


@pytest.mark.real
def test_withdrawn(place: Place) -> None:
    """A version that its makers took back is refused, with their reason."""
    page = place.folder / "index" / "beta" / "index.html"
    page.write_text(page.read_text().replace("<a ", '<a data-yanked="eats data" '))

    err = refused(place, "beta ==1.0")

    assert "beta 1.0 was withdrawn by its makers: eats data" in err.message


@pytest.mark.real
def test_locked(place: Place, index: Index) -> None:
    """A lock's wheels are installed from a folder without the index; a file with another content is refused."""
    found = place.install("alpha ==1.0")
    place.pip.run("uninstall", "--yes", "alpha", "beta")
    store = place.folder / "carried"
    store.mkdir()
    for each in (place.folder / "index").glob("*/*.whl"):
        shutil.copy(each, store)
    index.asked = 0
    put = packages.install(place.pip, [Package("alpha")], (), force=False, locked=found, find_links=str(store))

    assert place.versions == {w.name: w.version for w in found} == {w.name: w.version for w in put}
    assert index.asked == 0
    place.pip.run("uninstall", "--yes", "alpha", "beta")
    wrong = [dataclasses.replace(w, sha256="0" * 64) for w in found]
    with pytest.raises(PipError, match="another hash") as caught:
        packages.install(place.pip, [Package("alpha")], (), force=False, locked=wrong, find_links=str(store))
    assert caught.value.harmless and not place.versions


@pytest.mark.real
def test_old_pip(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pip without a report installs all the same, and it is said that only afterwards can be looked."""
    site = next(place.pip.target.notes.parent.glob("lib/python3*/site-packages"))
    about = next(site.glob("pip-*.dist-info/METADATA"))
    about.write_text(about.read_text().replace(f"Version: {about.parent.name.split('-')[1][:-5]}", "Version: 22.0.2"))

    place.install("alpha ==1.0")

    assert "pip 22.0.2 is older than 22.2" in "".join(place.said)
    assert place.versions["alpha"] == "1.0"


# ---- by data alone


def judged(
    *found: ResolvedPackage, there: tuple[ResolvedPackage, ...] = (), wanted: tuple[Package, ...] = ()
) -> list[str]:
    return [p.why for p in solver.judge(PipAnswer("25", found, there), wanted)]


@pytest.mark.parametrize(
    ("plugin", "framework", "good"),
    (
        (("paddle-custom-npu", "3.1.0"), ("paddlepaddle", "3.1.0"), True),
        (("paddle_iluvatar_gpu", "3.1.0"), ("paddlepaddle", "3.1.0a0"), True),  # ERNIE's page pairs them
        (("paddle_iluvatar_gpu", "3.3.0"), ("paddlepaddle", "3.3.0a0"), False),
        (("paddle-custom-npu", "3.3.0"), ("paddlepaddle", "3.1.0"), False),
        (("torch-npu", "2.7.1rc1"), ("torch", "2.7.1+cpu"), True),
        (("torch-npu", "2.10.0.post4"), ("torch", "2.10.0"), True),
        (("torch-npu", "2.6.0"), ("torch", "2.7.1"), False),
    ),
)
def test_pairs(plugin: tuple[str, str], framework: tuple[str, str], good: bool) -> None:
    """A plugin fits the framework of its version, or one that a table pairs with it; torch-npu counts on behind it."""
    assert (judged(ResolvedPackage(*plugin), there=(ResolvedPackage(*framework),)) == []) is good


def test_pins_and_unsaid() -> None:
    """A pin is held against what is there after; what a package forgets to say of numpy is known to us."""
    old = ResolvedPackage("opencv-python", "4.5.5.64")

    assert (
        "the recipe wants ==1.26.4"
        in judged(ResolvedPackage("numpy", "1.25"), wanted=(Package("numpy", "==1.26.4"),))[0]
    )
    assert (
        "opencv-python 4.5.5.64 wants numpy<2: import cv2 fails"
        in judged(ResolvedPackage("numpy", "2.1"), there=(old,))[0]
    )
    assert judged(ResolvedPackage("other", "1"), there=(old, ResolvedPackage("numpy", "2.1"))) == []


def test_unsaid_comes_from_the_tables() -> None:
    """What was tried and failed with a numpy, by a plain bound, is a reason here; what metadata say is left to them."""
    rows = [row for row in judging.bad("numpy") if patterns.outside(row.version) and row.confidence is Confidence.TRIED]
    known = {name for row in rows for name in row.others}

    assert known == {"paddlepaddle", "paddlepaddle-gpu", "opencv-python"}
    paddle = ResolvedPackage("paddlepaddle", "3.1.0", requires=("numpy>=1.21",))
    assert "paddlepaddle 3.1.0 wants numpy<2.4" in judged(paddle, ResolvedPackage("numpy", "2.4.1"))[0]
    assert judged(paddle, ResolvedPackage("numpy", "2.3.5")) == []
    assert judged(paddle, ResolvedPackage("numpy", "1.0"))[0].endswith("wants numpy>=1.21")
    assert judged(ResolvedPackage("paddlepaddle", "3.1.0"), ResolvedPackage("numpy", "1.0")) == []


def test_markers_count() -> None:
    """A wish that is for another Python, or for an extra that nobody asked for, is none."""
    wishes = ("numpy<2; python_version < '3'", "numpy<2; extra == 'old'", "not a requirement at all")
    there = PipAnswer(
        "25",
        (ResolvedPackage("a", "1", requires=wishes), ResolvedPackage("numpy", "2.1")),
        markers={"python_version": "3.11"},
    )

    assert list(solver.judge(there, ())) == []


def test_was_wrong_before() -> None:
    """What was at odds before is not ours to refuse."""
    there = (ResolvedPackage("compiled", "1", requires=("numpy<2",)), ResolvedPackage("numpy", "2.1"))

    assert judged(ResolvedPackage("numpy", "2.2"), there=there) == []


@given(
    st.text()
    | st.recursive(st.none() | st.text() | st.integers(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)).map(
        json.dumps
    )
)
def test_any_report(text: str) -> None:
    """Whatever stands where the report should, it is read or refused in a sentence."""
    try:
        solver.read(f"noise\nENVCHECK {text}")
    except StepError as err:
        assert "report cannot be understood" in err.message
