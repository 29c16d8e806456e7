"""envcheck solve: the newest versions that are tested together on a driver, and what a newer set would want."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envcheck.compat import detect, judging, loading, solving
from envcheck.compat.model import Standing
from envcheck.compat.solving import Choice
from envcheck.core import versions
from envcheck.core.facts import Facts, Packages, VendorFacts
from envcheck.report import version_sets
from envcheck.vendors import VENDORS

ROOT = Path(__file__).parents[3]
TABLE = loading.table()


# (device, framework, driver, processor): what the documents pair.
BEST: list[tuple[tuple[str, str, str, str], dict[str, str]]] = [
    (
        ("npu", "paddle", "24.1.rc1.b030", "x86_64"),
        {"paddle-custom-npu": "3.1.0", "paddlepaddle": "3.1.0a0", "cann": "8.0.RC1", "python": "3.10"},
    ),
    (
        ("npu", "paddle", "23.0.3", "aarch64"),
        {"paddle-custom-npu": "3.0.0", "paddlepaddle": "3.0.0", "cann": "8.0.0", "numpy": "1.26.4"},
    ),
    (("npu", "torch", "25.0.rc1", "aarch64"), {"torch-npu": "2.10.0", "torch": "2.10.0", "cann": "9.0.0"}),
    (("iluvatar", "paddle", "4.3.8", "x86_64"), {"paddle-iluvatar-gpu": "3.3.0", "paddlepaddle": "3.3.0"}),
    (("nvidia", "paddle", "550.54.15", "x86_64"), {"paddlepaddle-gpu": "3.2.0", "cuda": "12.6", "python": "3.12"}),
    (("nvidia", "paddle", "470.103.01", "x86_64"), {"paddlepaddle-gpu": "3.0.0", "cuda": "11.8"}),
    (("nvidia", "torch", "580.65.06", "x86_64"), {"torch-cuda": "2.14.1", "cuda": "13.2", "python": "3.14"}),
    (("nvidia", "torch", "550.54.15", "x86_64"), {"torch-cuda": "2.14.1", "cuda": "12.6", "python": "3.14"}),
    (("nvidia", "torch", "525.60.13", "aarch64"), {"torch-cuda": "2.14.1", "cuda": "12.6"}),
    (("nvidia", "torch", "470.103.01", "x86_64"), {"torch-cuda": "2.7.1", "cuda": "11.8", "python": "3.13"}),
    (("iluvatar", "torch", "4.4.0", "x86_64"), {"torch-corex": "2.7.1+corex.4.4.0", "numpy": "1.26.4"}),
]
NONE = [
    (("npu", "paddle", "25.5.2", "x86_64"), "no paddle-custom-npu is named with CANN"),
    (("npu", "paddle", "22.0.4", "x86_64"), "no CANN is named with driver 22.0.4"),
    (("npu", "torch", "20.1.0", "x86_64"), "no CANN is named with driver 20.1.0"),
    (("iluvatar", "paddle", "4.3.0", "aarch64"), "no paddle-iluvatar-gpu is named with processor aarch64"),
    (("nvidia", "paddle", "570.124.06", "aarch64"), "there is no GPU wheel for aarch64"),
    (("nvidia", "paddle", "390.1", "x86_64"), "no CUDA is named with driver 390.1"),
    (("nvidia", "torch", "390.1", "x86_64"), "no CUDA is named with driver 390.1"),
    (("nvidia", "torch", "470.103.01", "aarch64"), "no torch is named with CUDA 11.8 and with processor aarch64"),
    (("iluvatar", "torch", "4.3.0", "x86_64"), "no torch is named with driver 4.3.0"),
    (("iluvatar", "torch", "4.4.0", "aarch64"), "no torch is named with processor aarch64"),
]
drivers = st.from_regex(r"[0-9]{1,3}\.[0-9]{1,2}\.(rc)?[0-9]{1,2}(\.b[0-9]{3})?", fullmatch=True)


def answer(device: str, framework: str, driver: str, architecture: str) -> solving.Answer:
    return solving.solve(TABLE.goals[device, framework], driver, architecture)


@pytest.mark.parametrize(("asked", "expected"), BEST, ids=[" ".join(asked) for asked, _ in BEST])
def test_newest_tested_set(asked: tuple[str, str, str, str], expected: Mapping[str, str]) -> None:
    """For a driver that documents name there is the newest set that they pair with it."""
    best = answer(*asked).best

    assert best is not None and best.stated
    assert {name: best.versions.get(name) for name in expected} == expected


@pytest.mark.parametrize(("asked", "why"), NONE, ids=[" ".join(asked) for asked, _ in NONE])
def test_no_tested_set_says_what_is_missing(asked: tuple[str, str, str, str], why: str) -> None:
    """Where no document leads from the driver to the framework, the missing link is named."""
    found = answer(*asked)

    assert found.best is None
    assert any(why in text for text in found.missing), found.missing


def test_what_follows_only_is_a_guess() -> None:
    """A set that no document states is no tested one; it is told apart."""
    found = answer("npu", "paddle", "24.1.rc1.b030", "aarch64")

    assert found.best is None
    assert found.guess is not None and not found.guess.stated
    assert found.guess.versions["cann"] == "8.0.0"


def test_a_wheels_name_alone_is_a_guess() -> None:
    """The driver that follows from an Iluvatar wheel's name is stated nowhere: told, and not as tested."""
    found = answer("iluvatar", "torch", "4.3.8", "x86_64")

    assert found.best is None
    assert found.guess is not None and found.guess.versions["torch-corex"] == "2.4.1+corex.4.3.8"


@pytest.mark.parametrize(
    ("device", "driver", "command"),
    (
        ("nvidia", "550.54.15", "pip install torch==2.14.1 -i https://download.pytorch.org/whl/cu126"),
        ("nvidia", "460.32.03", "pip install torch==2.7.1 -i https://download.pytorch.org/whl/cu118"),
        ("iluvatar", "4.5.0", "pip install torch==2.10.0+corex.4.5.0.20260804 -i https://resource.flagos.net/"),
    ),
)
def test_torch_comes_from_its_makers_index(device: str, driver: str, command: str) -> None:
    """The command names the package as pip knows it, and the index of the CUDA, or the maker, that was chosen."""
    goal, found = TABLE.goals[device, "torch"], answer(device, "torch", driver, "x86_64")
    told = version_sets.Told(device, "torch", driver, "x86_64", goal, found, {}, (), TABLE)

    assert any(line.strip().startswith(command) for line in version_sets.as_text(told, 80).splitlines())
    assert all(v.source and v.date for choice in (found.best, *found.others) if choice for v in choice.verdicts)


@pytest.mark.parametrize(
    ("vendor", "version", "component"),
    (
        ("nvidia", "2.7.1+cu128", "torch-cuda"),
        ("nvidia", "2.7.1", "torch-cuda"),
        ("nvidia", "2.7.1+cpu", None),
        ("iluvatar", "2.7.1+corex.4.4.0", "torch-corex"),
        ("npu", "2.7.1", None),
    ),
)
def test_torch_is_told_by_its_maker(vendor: str, version: str, component: str | None) -> None:
    """Whose torch is installed is read from its version's label and the cards: each maker has its own table."""
    packages = Packages("3.11.9", packages={"torch": version})
    found = detect.installed(Facts(vendors=(VendorFacts(VENDORS[vendor]),), packages=packages))

    assert {name for name in found if name in ("torch-cuda", "torch-corex")} == {component} - {None}


def test_newer_sets_want_newer_drivers() -> None:
    """Each step up names a newer driver than the one before, and gives a newer set."""
    goal, found = TABLE.goals["npu", "torch"], answer("npu", "torch", "24.1.rc2", "aarch64")
    steps = [found.best, *found.others]

    assert len(steps) >= 3 and all(steps)
    for older, newer in pairwise(steps):
        assert older is not None and newer is not None
        assert versions.compare(newer.versions["npu-driver"], older.versions["npu-driver"]) == 1
        assert solving.newer(goal, newer, older)


def test_older_driver_is_named_where_no_newer_helps() -> None:
    """Where only older drivers have a tested set, the nearest is named."""
    found = answer("iluvatar", "paddle", "4.4.0", "x86_64")

    assert [choice.versions["corex-driver"] for choice in found.others] == ["4.3.8"]


def test_python_that_is_here_stays() -> None:
    """A Python that the set works with is not changed for a newer one."""
    goal = TABLE.goals["nvidia", "paddle"]
    best = solving.solve(goal, "570.124.06", "x86_64", python="3.10.14").best

    assert best is not None and best.versions["python"] == "3.10"


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(sorted(TABLE.goals)), drivers, st.sampled_from(("x86_64", "aarch64")))
def test_every_set_is_tested_throughout(kind: tuple[str, str], driver: str, architecture: str) -> None:
    """Whatever the driver, a set that is called tested has each link tested, by document and date, and nothing bad."""
    goal, found = TABLE.goals[kind], answer(*kind, driver, architecture)
    for choice in (found.best, *found.others):
        if choice is None:
            continue
        verdicts = {(v.left, v.right): v for v in judging.judge(choice.versions)}
        assert all(verdicts[link].standing is Standing.TESTED for link in goal.links)
        assert all(verdicts[link].source and verdicts[link].date for link in goal.links)
        assert not any(v.standing is Standing.BAD for v in verdicts.values())


@pytest.mark.parametrize("kind", TABLE.goals, ids=" ".join)
def test_nothing_newer_was_left_out(kind: tuple[str, str]) -> None:
    """For each driver that the tables name, no set of the tables that is tested throughout is newer than the answer."""
    goal = TABLE.goals[kind]
    for driver in solving.candidates(goal.driver, TABLE):
        best = answer(*kind, driver, "x86_64").best
        for newer in (
            v for v in solving.candidates(goal.wanted[0], TABLE) if not best or _above(v, best, goal.wanted[0])
        ):
            held = {goal.driver: driver, "architecture": "x86_64", goal.wanted[0]: newer}
            assert not _possible(goal, goal.wanted[1:], held), held


def _above(version: str, best: Choice, name: str) -> bool:
    return versions.compare(version, best.versions[name]) == 1


def _possible(goal: solving.Goal, left: tuple[str, ...], held: dict[str, str]) -> bool:
    """Whether some choice of the rest is tested throughout: all are tried, by the judge alone."""
    standings = {(v.left, v.right): v.standing for v in judging.judge(held)}
    if any(link in standings and standings[link] is not Standing.TESTED for link in goal.links):
        return False
    if not left:
        return all(link in standings for link in goal.links) and Standing.BAD not in standings.values()
    return any(_possible(goal, left[1:], {**held, left[0]: v}) for v in solving.candidates(left[0], TABLE))
