"""Whether a machine is one that a recipe is for, by what was seen of it; and whose a folder is."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from envcheck.core.facts import Facts, Host, VendorFacts
from envcheck.core.model import Device, Document, Status
from envcheck.job.suitability import judge_requirements
from envcheck.vendors import VENDORS
from installers.plan import host_facts, preconditions
from installers.recipes.recipe import Hardware, Recipe, RecipeJob, wanted

GIB = 1024
NOBODY = 65534
LORA = RecipeJob("lora", "", ("true",), processes=8)
RECIPE = Recipe("r", "", "npu", "f", ("m",), Hardware("p", 8, 64, ("x86_64",)), (LORA,))
HOST = Host(architecture="x86_64")


def machine(sizes: tuple[int | None, ...], used: int = 0, **more: Any) -> Facts:
    """Cards of these sizes in MiB, each with so much in use."""
    found = tuple(Device(npu=n, memory_total_mib=size, memory_used_mib=used) for n, size in enumerate(sizes))
    vendor = VendorFacts(VENDORS["npu"], devices=found, document=Document("npu-smi", "info"))
    return Facts(**{"vendors": (vendor,), "host": HOST, **more})


UNSEEN = VendorFacts(VENDORS["npu"], pci=("c1:00.0",))  # on the bus, and no driver
FIT = machine((64 * GIB,) * 8)


def why(cards: Facts | None, recipe: Recipe = RECIPE, role: str = "") -> list[str]:
    return [each.why for each in preconditions.obstacles(recipe, cards, role)]


@pytest.mark.parametrize(
    "cards",
    (
        FIT,
        machine((64 * GIB,) * 9),
        machine((62 * GIB,) * 8),
        machine((64 * GIB,) * 8, used=60 * GIB),
        machine((*(64 * GIB,) * 8, 32 * GIB)),
        machine((None,) * 8),
        machine((), vendors=(UNSEEN,)),
        None,
    ),
    ids=("exactly", "more", "rounded", "in-use", "small-one-unused", "sizes-not-told", "not-seen", "not-judged"),
)
def test_nothing_against_it(cards: Facts | None) -> None:
    """What is enough, what nobody could see, and what may be free when the job starts, is in nobody's way."""
    assert why(cards) == []
    assert list(preconditions.mind(RECIPE, cards)) == []


@pytest.mark.parametrize(
    ("cards", "told"),
    (
        (
            machine((64 * GIB,) * 8, host=Host(architecture="aarch64")),
            ["recipe r supports x86_64 only; this host is aarch64"],
        ),
        (machine((64 * GIB,) * 7), ["this job needs 8 devices; 7 found"]),
        (
            machine((32 * GIB,) * 8),
            ["devices 0-7: 32 GiB of memory; this job needs 8 devices of 64 GiB"],
        ),
        (
            machine((32 * GIB, *(64 * GIB,) * 7)),
            ["device 0: 32 GiB of memory; this job needs 8 devices of 64 GiB"],
        ),
        (machine((None,)), ["this job needs 8 devices; 1 found"]),
        (machine((), vendors=()), ["this job needs Huawei Ascend devices; this machine has none"]),
    ),
)
def test_against_it(cards: Facts, told: list[str]) -> None:
    """What is certainly not enough is said as doctor says it, with the judge's remedy."""
    judged = judge_requirements(replace(cards, wanted=wanted(RECIPE, LORA)))
    failed = {f.seen: f.remedy.words for f in judged if f.remedy and f.status is Status.FAIL}

    assert why(cards) == told
    assert [each.remedy.partition(" Run ")[0] for each in preconditions.obstacles(RECIPE, cards)] == [
        failed[words] for words in told
    ]


def test_enough_for_one_method() -> None:
    """Where one of the methods would run, the others are named, and nothing is in the way."""
    large = replace(LORA, method="sft", cards=16)
    recipe = replace(RECIPE, jobs=(LORA, large))

    assert why(FIT, recipe) == []
    assert list(preconditions.mind(recipe, FIT)) == ["not for sft: this job needs 16 devices; 8 found"]


def test_the_method_is_named() -> None:
    """Where each method lacks something else, it is said of which."""
    recipe = replace(RECIPE, jobs=(replace(LORA, cards=12), replace(LORA, method="sft", cards=16)))

    assert why(FIT, recipe) == [
        "lora: this job needs 12 devices; 8 found",
        "sft: this job needs 16 devices; 8 found",
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
