"""The lock: what is written is read again, strangers' files are refused by key, and the first difference is named."""

from __future__ import annotations

import dataclasses
import hashlib
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.utils import canonicalize_name

from envcheck.core import toml_file
from envcheck.core.errors import UsageError
from installers.locks import lockfile, lockfile_use
from installers.locks.lockfile import Commit, DriverFile, Image, Lock, Wheel
from installers.locks.lockfile_use import LockError
from installers.recipes import catalogue
from installers.recipes.recipe import Package, Recipe
from tests.installers.provision_helpers import wheel

RECIPE = catalogue.by_name(catalogue.load_all(), "ernie-300b-npu")
SHA, DIGEST, COMMIT = "ab" * 32, "sha256:" + "cd" * 32, "12" * 20
VERSIONS = {"numpy": "1.26.4", "paddlepaddle": "3.1.0", "paddle-custom-npu": "3.1.0"} | {
    p.name: "1.0" for p in RECIPE.packages if p.name not in ("numpy", "paddlepaddle", "paddle-custom-npu")
}
LOCK = Lock(
    1,
    "0.1.0",
    RECIPE.name,
    lockfile.recipe_hash(RECIPE),
    "x86_64",
    "3.10",
    Image("registry:5000/device/paddle-npu:cann80", DIGEST, DIGEST),
    DriverFile("Ascend-hdk-910b-npu-driver_24.1.rc1_linux-aarch64.run", SHA),
    tuple(Wheel(n, v, f"{n.replace('-', '_')}-{v}-py3-none-any.whl", SHA) for n, v in VERSIONS.items()),
    tuple(Commit(c.url, COMMIT, c.directory) for c in RECIPE.checkouts),
)


def test_round_trip(tmp_path: Path) -> None:
    """What was written is read again, alike."""
    path = tmp_path / lockfile.NAME
    lockfile.write(path, LOCK)

    assert lockfile.load(path) == LOCK
    assert (
        lockfile.parse(lockfile.dump(replace(LOCK, image=None, driver=None, wheels=(), checkouts=())), "f").wheels == ()
    )


@given(st.text(st.characters(codec="utf-8"), max_size=60), st.text(st.characters(codec="utf-8"), max_size=60))
def test_any_text_is_written_well(one: str, other: str) -> None:
    """Whatever stands in the values, the file stays TOML and says the same."""
    lock = replace(LOCK, envcheck=one, checkouts=(Commit(other, COMMIT),))
    said = toml_file.table(lockfile.dump(lock), "f", "")

    assert said.get("envcheck", "") == one
    assert said["checkouts"][0].get("url", "") == other


TEXT = lockfile.dump(LOCK)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    (
        ("schema = 1", "schema = 2", "schema: expected 1, found '2'"),
        ("schema = 1", "schema = true", "schema: expected 1"),
        ("schema = 1\n", "", "schema: expected 1, found 'None'"),
        ('recipe = "ernie-300b-npu"\n', "", "recipe: missing (text expected)"),
        ('recipe = "ernie-300b-npu"', "recipe = 7", "recipe: expected text, found"),
        ('recipe = "ernie-300b-npu"', 'recipe = "../x"', "recipe: expected a recipe's name"),
        (f'digest = "{DIGEST}"', 'digest = "sha256:1"', "image.digest: expected sha256: and 64"),
        ('reference = "registry', 'reference = "--pull', "image.reference: expected an image's name"),
        (f'commit = "{COMMIT}"', 'commit = "main"', "checkouts[0].commit: expected a whole commit"),
        ('url = "https', 'url = "--upload-pack=x', "checkouts[0].url: expected the address"),
        ('file = "numpy-1.26.4', 'file = "../numpy-1.26.4', "wheels[0].file: '../numpy"),
        ('file = "numpy-1.26.4', 'file = "numpy-1.26.5', "is no file of numpy 1.26.4"),
        ('name = "paddlepaddle"', 'name = "numpy"', "wheels[1].file"),
        ('file = "Ascend', 'file = "/etc/Ascend', "driver.file: expected the name of a file"),
        ("[driver]", "[drivers]", "drivers: there is no such key"),
        ("[image]", "[image", "not TOML"),
    ),
)
def test_strangers_are_refused(before: str, after: str, expected: str) -> None:
    """A lock that is none is refused with the file, the key and what was expected there."""
    assert before in TEXT
    with pytest.raises(UsageError) as refused:
        lockfile.parse(TEXT.replace(before, after, 1), "x.lock")

    assert refused.value.message.startswith("x.lock: ")
    assert expected in refused.value.message
    assert refused.value.next_step


def test_two_of_one_name() -> None:
    """A package stands once."""
    twice = replace(LOCK, wheels=(*LOCK.wheels, replace(LOCK.wheels[0], name="NumPy")))
    with pytest.raises(UsageError, match="NumPy stands twice"):
        lockfile.parse(lockfile.dump(twice), "f")


def test_recipe_hash() -> None:
    """The hash moves with what is installed, and not with what is said about it."""
    packages = (replace(RECIPE.packages[0], specifier="==1.26.3"), *RECIPE.packages[1:])

    assert lockfile.recipe_hash(replace(RECIPE, file="elsewhere", notes={})) == LOCK.recipe_sha256
    assert lockfile.recipe_hash(replace(RECIPE, packages=packages)) != LOCK.recipe_sha256


def test_a_field_that_is_not_set_changes_no_hash() -> None:
    """A later envcheck's new field, of the recipe or of a part of it, leaves old locks true while nobody sets it."""

    @dataclass(frozen=True)
    class LaterPackage(Package):
        extras: tuple[str, ...] = ()

    @dataclass(frozen=True)
    class LaterRecipe(Recipe):
        mirrors: Mapping[str, str] = field(default_factory=dict)

    first, *others = (LaterPackage(**vars(package)) for package in RECIPE.packages)
    later = LaterRecipe(**{**vars(RECIPE), "packages": (first, *others)})
    used = (replace(later, mirrors={"a": "b"}), replace(later, packages=(replace(first, extras=("c",)), *others)))

    assert lockfile.recipe_hash(later) == LOCK.recipe_sha256
    assert all(lockfile.recipe_hash(recipe) != LOCK.recipe_sha256 for recipe in used)


@pytest.mark.parametrize("name", ("image", "container", "packages", "checkouts", "verify", "environment", "workdir"))
def test_what_is_set_moves_the_hash(name: str) -> None:
    """A recipe that no longer says it is another one."""
    defaults = {f.name: lockfile._unset(f) for f in dataclasses.fields(Recipe)}
    less = replace(RECIPE, **{name: defaults[name]})

    assert getattr(RECIPE, name) != defaults[name]
    assert lockfile.recipe_hash(less) != LOCK.recipe_sha256


def test_recipe_is_narrowed() -> None:
    """With --locked the recipe holds the digest, the versions and the commits, and no other name of the image."""
    recipe = lockfile_use.narrowed(RECIPE, LOCK, "x86_64")

    assert recipe.image and recipe.image.references == {"x86_64": f"registry:5000/device/paddle-npu@{DIGEST}"}
    assert recipe.image.alternates == {}
    assert {p.name: p.specifier for p in recipe.packages} == {n: f"=={v}" for n, v in VERSIONS.items()}
    assert [c.ref for c in recipe.checkouts] == [COMMIT]


@pytest.mark.parametrize(
    ("lock", "architecture", "expected"),
    (
        (replace(LOCK, recipe="tiny-cpu"), "x86_64", "of another recipe: it says tiny-cpu, here it is ernie-300b-npu"),
        (LOCK, "aarch64", "of another architecture: it says x86_64, here it is aarch64"),
        (replace(LOCK, recipe_sha256=SHA), "x86_64", "of another recipe's content"),
        (replace(LOCK, checkouts=()), "x86_64", "no commit for https://github.com/PaddlePaddle/ERNIE.git"),
        (replace(LOCK, image=None), "x86_64", "the lock has no image"),
    ),
)
def test_lock_of_something_else(lock: Lock, architecture: str, expected: str) -> None:
    """A lock that does not fit the recipe stops everything, naming the first thing that differs."""
    with pytest.raises(LockError, match=expected):
        lockfile_use.narrowed(RECIPE, lock, architecture)


def test_differences() -> None:
    """What is there is compared one by one; nothing differs where all is as locked, or was not looked at."""
    said = lockfile_use.differences
    there: dict[str, str] = {canonicalize_name(n): v for n, v in VERSIONS.items()}
    moved = there | {"numpy": "2.0.0"}
    less = {n: v for n, v in there.items() if n != "paddlepaddle"}

    assert list(said(LOCK, packages=there, image=LOCK.image, commits={RECIPE.checkouts[0].directory: COMMIT})) == []
    assert list(said(LOCK)) == []
    assert list(said(LOCK, packages=moved)) == ["numpy: the lock has 1.26.4, there is 2.0.0"]
    assert list(said(LOCK, packages=less)) == ["paddlepaddle: the lock has 3.1.0, it is not there"]
    assert "the lock's digest is" in next(said(LOCK, image=Image("x", "sha256:" + "0" * 64)))
    assert "there is 0000" in next(said(LOCK, commits={RECIPE.checkouts[0].url: "0" * 40}))
    with pytest.raises(LockError, match=r"numpy: the lock has 1\.26\.4"):
        lockfile_use.demand(said(LOCK, packages=moved | {"paddlepaddle": "1"}))


@pytest.fixture
def index(tmp_path: Path) -> Path:
    """A folder with two real wheels, one of which needs the other."""
    wheel(tmp_path / "index", "alpha", "1.0", needs="beta>=1")
    wheel(tmp_path / "index", "beta", "1.5")
    for path in list((tmp_path / "index").rglob("*.whl")):
        path.rename(tmp_path / "index" / path.name)
    return tmp_path / "index"


def pip(*words: object) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "pip", "--disable-pip-version-check", *map(str, words)]
    return subprocess.run(argv, capture_output=True, text=True)


@pytest.mark.real
def test_locked_install(tmp_path: Path, index: Path) -> None:
    """From a lock to pip's own check: the locked files install, a file that differs does not."""
    files = sorted(index.glob("*.whl"))
    wheels = tuple(
        Wheel(f.name.split("-")[0], f.name.split("-")[1], f.name, hashlib.sha256(f.read_bytes()).hexdigest())
        for f in files
    )
    requirements = tmp_path / "locked.txt"
    requirements.write_text(lockfile_use.requirements(replace(LOCK, wheels=wheels)))
    arguments = lockfile_use.pip_arguments(str(requirements), find_links=str(index))
    good = pip(*arguments, "--target", tmp_path / "good")
    wheel(tmp_path / "other", "beta", "1.5", {"beta/__init__.py": "another = True"})
    (tmp_path / "other/beta/beta-1.5-py3-none-any.whl").replace(index / "beta-1.5-py3-none-any.whl")
    bad = pip(*arguments, "--target", tmp_path / "bad")

    assert [w.name for w in wheels] == ["alpha", "beta"]
    assert good.returncode == 0, good.stderr
    assert (tmp_path / "good/beta/__init__.py").exists()
    assert bad.returncode != 0
    assert "DO NOT MATCH THE HASHES" in bad.stderr


def test_drivers() -> None:
    """An installed driver of another release is told with both; where one of them is unknown nothing is; firmware has
    its own entry, and what the lock does not have is said."""
    driver, firmware = (
        replace(LOCK.driver or DriverFile("", ""), version="24.1.rc1"),
        DriverFile("f.run", SHA, "7", "firmware"),
    )
    lock = lockfile.parse(lockfile.dump(replace(LOCK, driver=driver, installers=(firmware,))), "f")

    assert lockfile_use.another_driver(lock, "24.1.rc1.b030") is None
    assert lockfile_use.another_driver(lock, None) is None
    assert lockfile_use.another_driver(LOCK, "25.0") is None
    assert f"the lock has 24.1.rc1 ({driver.file}, SHA-256 {SHA}), here it is 25.0" in str(
        lockfile_use.another_driver(lock, "25.0")
    )
    assert (lockfile_use.installer(lock, "driver"), lockfile_use.installer(lock, "firmware")) == (driver, firmware)
    with pytest.raises(LockError, match="no file for the firmware"):
        lockfile_use.installer(LOCK, "firmware")
