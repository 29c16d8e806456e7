"""pip's solution is judged before it is installed: real pip, index and environments; and data-only rules."""

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

from envcheck.compat import pair_verdicts, version_patterns
from envcheck.compat.version_records import Confidence
from envcheck.core.errors import StepError
from installers.locks.lockfile import LockedWheel
from installers.recipes.recipe import Package
from installers.software import pip_runner, solver
from installers.software.pip_runner import PipError, PipRunner
from installers.software.solver import PipAnswer, ResolvedPackage
from installers.targets.target import VenvTarget
from tests.installers.provision_helpers import PackageIndex, _IndexHandler, serve_index, stock_index, write_wheel


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an environment with pip only, to be copied."""
    folder = tmp_path_factory.mktemp("bare") / "venv"
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    return folder


@pytest.fixture
def index(tmp_path: Path) -> Iterator[PackageIndex]:
    stock_index(tmp_path / "index")
    with serve_index(tmp_path / "index") as server:
        yield server


@dataclasses.dataclass
class PackagesPlace:
    pip: PipRunner
    said: list[str]
    folder: Path

    def install_packages(
        self, *wanted: str, others: tuple[Package, ...] = (), force: bool = False
    ) -> tuple[LockedWheel, ...]:
        asked = [Package(*text.partition(" ")[::2]) for text in wanted]
        return pip_runner.install_packages(self.pip, asked, others, force=force)

    @property
    def installed_versions(self) -> dict[str, str]:
        there = dict(self.pip.target.read_environment().packages)
        return {name: version for name, version in there.items() if name not in ("pip", "setuptools")}


@pytest.fixture
def place(bare: Path, tmp_path: Path, index: PackageIndex, monkeypatch: pytest.MonkeyPatch) -> PackagesPlace:
    folder = tmp_path / "venv with a space"
    shutil.copytree(bare, folder, symlinks=True)
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    for name, value in (("CONFIG_FILE", os.devnull), ("INDEX_URL", index.base_url), ("RETRIES", "0")):
        monkeypatch.setenv(f"PIP_{name}", value)
    monkeypatch.setenv("PIP_CACHE_DIR", str(tmp_path / "cache"))
    said: list[str] = []
    return PackagesPlace(PipRunner(VenvTarget(folder), said.append), said, tmp_path)


@pytest.mark.real
def test_fetched_once_and_told(place: PackagesPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    """The dry run costs no second download, even without caching; the lock gets name, file and hash."""
    asked: list[str] = []
    serve = _IndexHandler.do_GET
    monkeypatch.setattr(_IndexHandler, "do_GET", lambda self: (asked.append(self.path), serve(self))[1])

    found = place.install_packages("alpha ==2.0")

    assert place.installed_versions == {"alpha": "2.0", "beta": "2.0"}
    assert sorted(path for path in asked if path.endswith(".whl")) == [
        "/alpha/alpha-2.0-py3-none-any.whl",
        "/beta/beta-2.0-py3-none-any.whl",
    ]
    assert next((w.name, w.file, len(w.sha256)) for w in found) == ("alpha", "alpha-2.0-py3-none-any.whl", 64)
    assert not list((place.folder / "venv with a space" / ".envcheck" / "wheels").iterdir())
    assert not any(line.startswith("ENVCHECK") for line in place.said)


@pytest.mark.real
def test_second_time_nothing(place: PackagesPlace) -> None:
    """Installed packages are not installed again, unless `force` is set."""
    place.install_packages("beta ==1.0")
    again = place.install_packages("beta ==1.0")
    forced = place.install_packages("beta ==1.0", force=True)

    assert (again, [w.version for w in forced]) == ((), ["1.0"])


def expect_refusal(place: PackagesPlace, *wanted: str) -> PipError:
    before = place.installed_versions
    with pytest.raises(PipError) as caught:
        place.install_packages(*wanted)

    assert caught.value.harmless and caught.value.code == 4
    assert place.installed_versions == before
    return caught.value


@pytest.mark.real
def test_plugin_of_another_version(place: PackagesPlace) -> None:
    """A plugin of another version than its framework is refused before anything is installed."""
    root = place.folder / "index"
    write_wheel(root, "paddle_custom_npu", "3.0.0", {"plugin.py": ""})

    err = expect_refusal(place, "paddlepaddle ==3.1.0", "paddle-custom-npu")

    assert "paddle-custom-npu 3.0.0 requires paddlepaddle 3.0.0; paddlepaddle 3.1.0 found" in err.message
    assert "same version" in err.next_step


@pytest.mark.real
def test_numpy_under_others(place: PackagesPlace) -> None:
    """A numpy that installed packages do not support is refused; pip would only warn."""
    root = place.folder / "index"
    write_wheel(root, "compiled", "1.0", needs="numpy<2")
    write_wheel(root, "numpy", "2.1")
    write_wheel(root, "eager", "1.0", needs="numpy>=2")
    place.install_packages("compiled")

    err = expect_refusal(place, "eager")

    assert place.installed_versions["numpy"] == "1.0"
    assert "compiled 1.0 requires numpy<2, but numpy 2.1 would be installed" in err.message


@pytest.mark.real
def test_older_plan_kept(place: PackagesPlace) -> None:
    """Another package of the recipe is a limit: it stays in its range."""
    place.install_packages("alpha", others=(Package("beta", "==2.0"),))

    assert place.installed_versions["beta"] == "2.0"
    with pytest.raises(PipError, match=r"conflicting requirements|no version that satisfies"):
        place.install_packages("alpha ==2.0", others=(Package("beta", "<2"),), force=True)


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


def write_sdist(index: Path, name: str, **more: str) -> None:
    """Write a source archive to the index with its own build backend, because the index has none."""
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
def test_sources(place: PackagesPlace) -> None:
    """A pure-Python source archive is installed; one with C is refused, with the file's name."""
    write_sdist(place.folder / "index", "plainly", **{"tests/speed.c": "int x;\n"})
    write_sdist(place.folder / "index", "quickly", **{"src/fast.c": "int x;\n"})

    err = expect_refusal(place, "quickly")
    place.install_packages("plainly")

    assert "would have to be compiled from source (quickly-1.0/src/fast.c)" in err.message
    assert place.installed_versions["plainly"] == "1.0"


@pytest.mark.real
def test_withdrawn(place: PackagesPlace) -> None:
    """A yanked version is refused with the reason."""
    page = place.folder / "index" / "beta" / "index.html"
    page.write_text(page.read_text().replace("<a ", '<a data-yanked="eats data" '))

    err = expect_refusal(place, "beta ==1.0")

    assert "beta 1.0 was yanked by its maintainers: eats data" in err.message


@pytest.mark.real
def test_locked(place: PackagesPlace, index: PackageIndex) -> None:
    """A lock's wheels are installed from a folder without the index; a file with other content is refused."""
    found = place.install_packages("alpha ==1.0")
    place.pip.run_pip("uninstall", "--yes", "alpha", "beta")
    store = place.folder / "carried"
    store.mkdir()
    for each in (place.folder / "index").glob("*/*.whl"):
        shutil.copy(each, store)
    index.asked = 0
    put = pip_runner.install_packages(
        place.pip, [Package("alpha")], (), force=False, locked=found, find_links=str(store)
    )

    assert place.installed_versions == {w.name: w.version for w in found} == {w.name: w.version for w in put}
    assert index.asked == 0
    place.pip.run_pip("uninstall", "--yes", "alpha", "beta")
    wrong = [dataclasses.replace(w, sha256="0" * 64) for w in found]
    with pytest.raises(PipError, match="has an unexpected hash") as caught:
        pip_runner.install_packages(place.pip, [Package("alpha")], (), force=False, locked=wrong, find_links=str(store))
    assert caught.value.harmless and not place.installed_versions


@pytest.mark.real
def test_old_pip(place: PackagesPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pip without reports installs anyway, and a note says that versions are compared afterwards."""
    site = next(place.pip.target.notes_folder.parent.glob("lib/python3*/site-packages"))
    about = next(site.glob("pip-*.dist-info/METADATA"))
    about.write_text(about.read_text().replace(f"Version: {about.parent.name.split('-')[1][:-5]}", "Version: 22.0.2"))

    place.install_packages("alpha ==1.0")

    assert "pip 22.0.2 is older than 22.2" in "".join(place.said)
    assert place.installed_versions["alpha"] == "1.0"


# ---- by data alone


def judge_answer(
    *found: ResolvedPackage, there: tuple[ResolvedPackage, ...] = (), wanted: tuple[Package, ...] = ()
) -> list[str]:
    return [p.why for p in solver.judge_answer(PipAnswer("25", found, there), wanted)]


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
    """A plugin fits the framework of its version, or one that a table pairs with it; torch-npu has its own suffixes."""
    assert (judge_answer(ResolvedPackage(*plugin), there=(ResolvedPackage(*framework),)) == []) is good


def test_pins_and_unsaid() -> None:
    """Pins are compared with the result; numpy limits missing from metadata come from envcheck's tables."""
    old = ResolvedPackage("opencv-python", "4.5.5.64")

    assert (
        "the recipe requires numpy==1.26.4, but numpy 1.25 would be installed"
        in judge_answer(ResolvedPackage("numpy", "1.25"), wanted=(Package("numpy", "==1.26.4"),))[0]
    )
    assert (
        "opencv-python 4.5.5.64 requires numpy<2, but numpy 2.1 would be installed: import cv2 fails"
        in judge_answer(ResolvedPackage("numpy", "2.1"), there=(old,))[0]
    )
    assert judge_answer(ResolvedPackage("other", "1"), there=(old, ResolvedPackage("numpy", "2.1"))) == []


def test_unsaid_comes_from_the_tables() -> None:
    """Tested failures with a numpy are reported from the tables if they are a plain bound; metadata stay pip's."""
    rows = [
        row
        for row in pair_verdicts.list_bad_rows("numpy")
        if version_patterns.invert_bounds(row.version) and row.confidence is Confidence.TRIED
    ]
    known = {name for row in rows for name in row.others}

    assert known == {"paddlepaddle", "paddlepaddle-gpu", "opencv-python"}
    paddle = ResolvedPackage("paddlepaddle", "3.1.0", requires=("numpy>=1.21",))
    assert (
        "paddlepaddle 3.1.0 requires numpy<2.4, but numpy 2.4.1"
        in judge_answer(paddle, ResolvedPackage("numpy", "2.4.1"))[0]
    )
    assert judge_answer(paddle, ResolvedPackage("numpy", "2.3.5")) == []
    assert judge_answer(paddle, ResolvedPackage("numpy", "1.0"))[0].startswith(
        "paddlepaddle 3.1.0 requires numpy>=1.21"
    )
    assert judge_answer(ResolvedPackage("paddlepaddle", "3.1.0"), ResolvedPackage("numpy", "1.0")) == []


def test_markers_count() -> None:
    """A requirement for another Python, or for an extra that was not requested, does not count."""
    wishes = ("numpy<2; python_version < '3'", "numpy<2; extra == 'old'", "not a requirement at all")
    there = PipAnswer(
        "25",
        (ResolvedPackage("a", "1", requires=wishes), ResolvedPackage("numpy", "2.1")),
        markers={"python_version": "3.11"},
    )

    assert list(solver.judge_answer(there, ())) == []


def test_was_wrong_before() -> None:
    """A conflict that existed before does not block."""
    there = (ResolvedPackage("compiled", "1", requires=("numpy<2",)), ResolvedPackage("numpy", "2.1"))

    assert judge_answer(ResolvedPackage("numpy", "2.2"), there=there) == []


@given(
    st.text()
    | st.recursive(st.none() | st.text() | st.integers(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)).map(
        json.dumps
    )
)
def test_any_report(text: str) -> None:
    """Any text instead of the report is parsed or refused with a message."""
    try:
        solver.parse_answer(f"noise\nENVCHECK {text}")
    except StepError as err:
        assert "cannot parse pip's report" in err.message
