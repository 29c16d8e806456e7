"""Whether a machine is one that a recipe is for, by what was seen of it; and whose a folder is."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from installers.plan import host_facts, preconditions
from installers.plan.accelerator import Accelerators
from installers.recipes.recipe import Hardware, Job, Recipe

GIB = 1024
NOBODY = 65534
LORA = Job("lora", "", ("true",))
RECIPE = Recipe("r", "", "npu", "f", ("m",), Hardware("p", 8, 64, ("x86_64",)), (LORA,))
FIT = Accelerators("x86_64", "1", (64 * GIB,) * 8)


def why(cards: Accelerators | None, recipe: Recipe = RECIPE, role: str = "") -> list[str]:
    return [each.why for each in preconditions.obstacles(recipe, cards, role)]


@pytest.mark.parametrize(
    "cards",
    (
        FIT,
        replace(FIT, sizes_mib=(64 * GIB,) * 9),
        replace(FIT, sizes_mib=(62 * GIB,) * 8),
        replace(FIT, sizes_mib=(None,) * 8),
        replace(FIT, sizes_mib=None),
        None,
    ),
    ids=("exactly", "more", "rounded", "sizes-not-told", "not-seen", "not-judged"),
)
def test_nothing_against_it(cards: Accelerators | None) -> None:
    """What is enough, and what nobody could see, is in nobody's way."""
    assert why(cards) == []
    assert list(preconditions.mind(RECIPE, cards)) == []


@pytest.mark.parametrize(
    ("cards", "told"),
    (
        (replace(FIT, architecture="aarch64"), "this machine's processor is aarch64, and r is for x86_64"),
        (replace(FIT, sizes_mib=(64 * GIB,) * 7), "7 Huawei Ascend devices of 64 GiB are here; r wants 8 of 64 GiB"),
        (replace(FIT, sizes_mib=(32 * GIB,) * 8), "8 Huawei Ascend devices of 32 GiB are here; r wants 8 of 64 GiB"),
        (
            replace(FIT, sizes_mib=(32 * GIB, *(64 * GIB,) * 7)),
            "8 Huawei Ascend devices of 32 GiB and 64 GiB are here; r wants 8 of 64 GiB",
        ),
        (replace(FIT, sizes_mib=(None,)), "1 Huawei Ascend device is here; r wants 8 of 64 GiB"),
        (
            replace(FIT, sizes_mib=None, others=("nvidia",)),
            "this machine has cards of NVIDIA and none of Huawei Ascend; r wants 8 of 64 GiB",
        ),
    ),
)
def test_against_it(cards: Accelerators, told: str) -> None:
    """What is certainly not enough is one sentence with what is here and what is wanted."""
    assert why(cards) == [told]


def test_enough_for_one_method() -> None:
    """Where one of the methods would run, the others are named, and nothing is in the way."""
    large = replace(LORA, method="sft", cards=16)
    recipe = replace(RECIPE, jobs=(LORA, large))

    assert why(FIT, recipe) == []
    assert list(preconditions.mind(recipe, FIT)) == [
        "not for sft: 8 Huawei Ascend devices of 64 GiB are here; it wants 16 of 64 GiB"
    ]


def test_the_own_role_counts() -> None:
    """What another node's part wants is not asked of this one."""
    recipe = replace(RECIPE, jobs=(replace(LORA, role="a"), replace(LORA, role="b", cards=16)))

    assert (why(FIT, recipe, "a"), len(why(FIT, recipe, "b"))) == ([], 1)


def test_folders_of_root(tmp_path: Path) -> None:
    """A system folder is root's; one that everybody may write, and one that nobody else can enter, is not."""
    (tmp_path / "closed").mkdir(mode=0o700)

    assert host_facts.is_of_root(Path("/usr/share/envcheck-no-such/venv"))
    assert not host_facts.is_of_root(Path("/tmp/envcheck-no-such"))
    assert not host_facts.is_of_root(tmp_path / "closed" / "venv")


def as_nobody(ask: Callable[[], str]) -> str:
    """The answer of a process that is not root."""
    if os.geteuid() != 0:
        return ask()
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            os.write(writing, ask().encode())
        finally:
            os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with os.fdopen(reading) as file:
        return file.read()


def test_closed_folders(tmp_path: Path) -> None:
    """Of the other folders that would be written, those that this user may not write are known beforehand, and those
    above which nothing can be looked at are among them."""
    hidden = tmp_path / "hidden"
    hidden.mkdir(mode=0o000)
    asked = ("/usr/share/envcheck-no-such", str(hidden / "a" / "b"), "/tmp")
    told = as_nobody(lambda: " ".join(sorted(host_facts.read(Path("/tmp"), (), asked).closed)))

    assert told.split() == sorted(asked[:2])
