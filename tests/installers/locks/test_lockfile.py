"""Lock files: round trip, refusal of invalid files with the key, and the first difference."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.utils import canonicalize_name

from envcheck.core import toml_file
from envcheck.core.errors import UsageError
from installers.locks import enforcement, lockfile
from installers.locks.enforcement import LockError
from installers.locks.lockfile import Lock, LockedCommit, LockedDriverFile, LockedImage, LockedWheel
from installers.recipes import catalogue
from installers.recipes.recipe import Package, Recipe

RECIPE = catalogue.find_recipe(catalogue.load_all(), "ernie-300b-npu")
SHA, DIGEST, COMMIT = "ab" * 32, "sha256:" + "cd" * 32, "12" * 20
VERSIONS = {"numpy": "1.26.4", "paddlepaddle": "3.1.0", "paddle-custom-npu": "3.1.0"} | {
    p.name: "1.0" for p in RECIPE.packages if p.name not in ("numpy", "paddlepaddle", "paddle-custom-npu")
}
LOCK = Lock(
    1,
    "0.1.0",
    RECIPE.name,
    lockfile.hash_recipe(RECIPE),
    "x86_64",
    "3.10",
    LockedImage("registry:5000/device/paddle-npu:cann80", DIGEST, DIGEST),
    LockedDriverFile("Ascend-hdk-910b-npu-driver_24.1.rc1_linux-aarch64.run", SHA),
    tuple(LockedWheel(n, v, f"{n.replace('-', '_')}-{v}-py3-none-any.whl", SHA) for n, v in VERSIONS.items()),
    tuple(LockedCommit(c.url, COMMIT, c.directory) for c in RECIPE.checkouts),
)


def test_round_trip(tmp_path: Path) -> None:
    """A written lock reads as an equal one."""
    path = tmp_path / lockfile.NAME
    lockfile.write_lock(path, LOCK)

    assert lockfile.load_lock(path) == LOCK
    assert (
        lockfile.parse_lock(
            lockfile.render_lock(replace(LOCK, image=None, driver=None, wheels=(), checkouts=())), "f"
        ).wheels
        == ()
    )


@given(st.text(st.characters(codec="utf-8"), max_size=60), st.text(st.characters(codec="utf-8"), max_size=60))
def test_any_text_is_written_well(one: str, other: str) -> None:
    """For any values the file is valid TOML with these values."""
    lock = replace(LOCK, envcheck=one, checkouts=(LockedCommit(other, COMMIT),))
    said = toml_file.parse_table(lockfile.render_lock(lock), "f", "")

    assert said.get("envcheck", "") == one
    assert said["checkouts"][0].get("url", "") == other


TEXT = lockfile.render_lock(LOCK)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    (
        ("schema = 1", "schema = 2", "schema: expected 1, got '2'"),
        ("schema = 1", "schema = true", "schema: expected 1"),
        ("schema = 1\n", "", "schema: expected 1, got 'None'"),
        ('recipe = "ernie-300b-npu"\n', "", "recipe: missing (text expected)"),
        ('recipe = "ernie-300b-npu"', "recipe = 7", "recipe: expected text, found"),
        ('recipe = "ernie-300b-npu"', 'recipe = "../x"', "recipe: expected a recipe name"),
        (f'digest = "{DIGEST}"', 'digest = "sha256:1"', "image.digest: expected `sha256:` followed by 64"),
        ('reference = "registry', 'reference = "--pull', "image.reference: expected an image name"),
        (f'commit = "{COMMIT}"', 'commit = "main"', "checkouts[0].commit: expected a full commit hash"),
        ('url = "https', 'url = "--upload-pack=x', "checkouts[0].url: expected a repository URL"),
        ('file = "numpy-1.26.4', 'file = "../numpy-1.26.4', "wheels[0].file: '../numpy"),
        ('file = "numpy-1.26.4', 'file = "numpy-1.26.5', "is not a file of numpy 1.26.4"),
        ('name = "paddlepaddle"', 'name = "numpy"', "wheels[1].file"),
        ('file = "Ascend', 'file = "/etc/Ascend', "driver.file: expected a file name"),
        ("[driver]", "[drivers]", "drivers: unknown key"),
        ("[image]", "[image", "not valid TOML"),
    ),
)
def test_strangers_are_refused(before: str, after: str, expected: str) -> None:
    """An invalid lock is refused with the file, the key and the expected value."""
    assert before in TEXT
    with pytest.raises(UsageError) as refused:
        lockfile.parse_lock(TEXT.replace(before, after, 1), "x.lock")

    assert refused.value.message.startswith("x.lock: ")
    assert expected in refused.value.message
    assert refused.value.next_step


def test_two_of_one_name() -> None:
    """A duplicate package is refused."""
    twice = replace(LOCK, wheels=(*LOCK.wheels, replace(LOCK.wheels[0], name="NumPy")))
    with pytest.raises(UsageError, match="duplicate entry: NumPy"):
        lockfile.parse_lock(lockfile.render_lock(twice), "f")


def test_recipe_hash() -> None:
    """The recipe's hash changes with what is installed, not with descriptions."""
    packages = (replace(RECIPE.packages[0], specifier="==1.26.3"), *RECIPE.packages[1:])

    assert lockfile.hash_recipe(replace(RECIPE, file="elsewhere", notes={})) == LOCK.recipe_sha256
    assert lockfile.hash_recipe(replace(RECIPE, packages=packages)) != LOCK.recipe_sha256


def test_a_field_that_is_not_set_changes_no_hash() -> None:
    """A field added by a later envcheck does not change hashes of recipes that do not set it."""

    @dataclass(frozen=True)
    class LaterPackage(Package):
        extras: tuple[str, ...] = ()

    @dataclass(frozen=True)
    class LaterRecipe(Recipe):
        mirrors: Mapping[str, str] = field(default_factory=dict)

    first, *others = (LaterPackage(**vars(package)) for package in RECIPE.packages)
    later = LaterRecipe(**{**vars(RECIPE), "packages": (first, *others)})
    used = (replace(later, mirrors={"a": "b"}), replace(later, packages=(replace(first, extras=("c",)), *others)))

    assert lockfile.hash_recipe(later) == LOCK.recipe_sha256
    assert all(lockfile.hash_recipe(recipe) != LOCK.recipe_sha256 for recipe in used)


@pytest.mark.parametrize("name", ("image", "container", "packages", "checkouts", "verify", "environment", "workdir"))
def test_what_is_set_moves_the_hash(name: str) -> None:
    """Removing a value from a recipe changes its hash."""
    defaults = {f.name: lockfile._default_value(f) for f in dataclasses.fields(Recipe)}
    less = replace(RECIPE, **{name: defaults[name]})

    assert getattr(RECIPE, name) != defaults[name]
    assert lockfile.hash_recipe(less) != LOCK.recipe_sha256


def test_recipe_is_narrowed() -> None:
    """With --locked the recipe has the digest, versions and commits of the lock, and no other image name."""
    recipe = enforcement.narrow_recipe(RECIPE, LOCK, "x86_64")

    assert recipe.image and recipe.image.references == {"x86_64": f"registry:5000/device/paddle-npu@{DIGEST}"}
    assert recipe.image.alternates == {}
    assert {p.name: p.specifier for p in recipe.packages} == {n: f"=={v}" for n, v in VERSIONS.items()}
    assert [c.ref for c in recipe.checkouts] == [COMMIT]


@pytest.mark.parametrize(
    ("lock", "architecture", "expected"),
    (
        (replace(LOCK, recipe="tiny-cpu"), "x86_64", "for another recipe: expected ernie-300b-npu, got tiny-cpu"),
        (LOCK, "aarch64", "for another architecture: expected aarch64, got x86_64"),
        (
            replace(LOCK, recipe_sha256=SHA),
            "x86_64",
            "for another version of the recipe \\(recipe_sha256\\): expected .*, got abab",
        ),
        (replace(LOCK, checkouts=()), "x86_64", "no commit for https://github.com/PaddlePaddle/ERNIE.git"),
        (replace(LOCK, image=None), "x86_64", "the lock file lists no image, but the recipe uses one"),
    ),
)
def test_lock_of_something_else(lock: Lock, architecture: str, expected: str) -> None:
    """A lock that does not fit the recipe is refused, naming the first difference."""
    with pytest.raises(LockError, match=expected):
        enforcement.narrow_recipe(RECIPE, lock, architecture)


def test_differences() -> None:
    """Each part is compared; nothing differs if all is as locked or was not inspected."""
    said = enforcement.find_differences
    there: dict[str, str] = {canonicalize_name(n): v for n, v in VERSIONS.items()}
    moved = there | {"numpy": "2.0.0"}
    less = {n: v for n, v in there.items() if n != "paddlepaddle"}

    assert list(said(LOCK, packages=there, image=LOCK.image, commits={RECIPE.checkouts[0].directory: COMMIT})) == []
    assert list(said(LOCK)) == []
    assert list(said(LOCK, packages=moved)) == ["numpy: the lock file lists 1.26.4, but 2.0.0 is installed"]
    assert list(said(LOCK, packages=less)) == ["paddlepaddle: the lock file lists 3.1.0, but it is not installed"]
    assert "the lock file lists digest sha256:cd" in next(said(LOCK, image=LockedImage("x", "sha256:" + "0" * 64)))
    assert "but the clone is at 0000" in next(said(LOCK, commits={RECIPE.checkouts[0].url: "0" * 40}))


def test_drivers() -> None:
    """An installed driver of another release is reported with both versions, unless one is unknown; firmware has its
    own entry, and a missing entry is reported."""
    driver, firmware = (
        replace(LOCK.driver or LockedDriverFile("", ""), version="24.1.rc1"),
        LockedDriverFile("f.run", SHA, "7", "firmware"),
    )
    lock = lockfile.parse_lock(lockfile.render_lock(replace(LOCK, driver=driver, installers=(firmware,))), "f")

    assert enforcement.explain_driver_mismatch(lock, "24.1.rc1.b030") is None
    assert enforcement.explain_driver_mismatch(lock, None) is None
    assert enforcement.explain_driver_mismatch(LOCK, "25.0") is None
    assert f"the lock file lists 24.1.rc1 ({driver.file}, SHA-256 {SHA}), but 25.0 is installed" in str(
        enforcement.explain_driver_mismatch(lock, "25.0")
    )
    assert (enforcement.find_installer(lock, "driver"), enforcement.find_installer(lock, "firmware")) == (
        driver,
        firmware,
    )
    with pytest.raises(LockError, match="no file for the firmware"):
        enforcement.find_installer(LOCK, "firmware")
