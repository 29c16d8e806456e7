"""envcheck solve: the newest tested set of versions for a driver, and what a newer set requires."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envcheck.compat import detect, pair_verdicts, solver, table_loader
from envcheck.compat.solver import VersionSet
from envcheck.compat.version_records import PairStatus
from envcheck.core import versions
from envcheck.core.facts import Facts, Packages, VendorFacts
from envcheck.report import version_sets
from envcheck.vendors import VENDORS

ROOT = Path(__file__).parents[3]
TABLE = table_loader.own_version_table()


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
    (("npu", "paddle", "25.5.2", "x86_64"), "no source lists a paddle-custom-npu version for CANN"),
    (("npu", "paddle", "22.0.4", "x86_64"), "no source lists a CANN version for driver 22.0.4"),
    (("npu", "torch", "20.1.0", "x86_64"), "no source lists a CANN version for driver 20.1.0"),
    (("iluvatar", "paddle", "4.3.0", "aarch64"), "no source lists a paddle-iluvatar-gpu version for processor aarch64"),
    (("nvidia", "paddle", "570.124.06", "aarch64"), "no GPU wheel for aarch64"),
    (("nvidia", "paddle", "390.1", "x86_64"), "no source lists a CUDA version for driver 390.1"),
    (("nvidia", "torch", "390.1", "x86_64"), "no source lists a CUDA version for driver 390.1"),
    (
        ("nvidia", "torch", "470.103.01", "aarch64"),
        "no source lists a torch version for both CUDA 11.8 and processor aarch64",
    ),
    (("iluvatar", "torch", "4.3.0", "x86_64"), "no source lists a torch version for driver 4.3.0"),
    (("iluvatar", "torch", "4.4.0", "aarch64"), "no source lists a torch version for processor aarch64"),
]
drivers = st.from_regex(r"[0-9]{1,3}\.[0-9]{1,2}\.(rc)?[0-9]{1,2}(\.b[0-9]{3})?", fullmatch=True)


def solve_goal(device: str, framework: str, driver: str, architecture: str) -> solver.VersionSolution:
    return solver.solve_versions(TABLE.goals[device, framework], driver, architecture)


@pytest.mark.parametrize(("asked", "expected"), BEST, ids=[" ".join(asked) for asked, _ in BEST])
def test_newest_tested_set(asked: tuple[str, str, str, str], expected: Mapping[str, str]) -> None:
    """For a driver that documents name there is the newest set that they pair with it."""
    best = solve_goal(*asked).best

    assert best is not None and best.stated
    assert {name: best.versions.get(name) for name in expected} == expected


@pytest.mark.parametrize(("asked", "why"), NONE, ids=[" ".join(asked) for asked, _ in NONE])
def test_no_tested_set_says_what_is_missing(asked: tuple[str, str, str, str], why: str) -> None:
    """Where no document leads from the driver to the framework, the missing link is named."""
    found = solve_goal(*asked)

    assert found.best is None
    assert any(why in text for text in found.missing), found.missing


def test_what_follows_only_is_a_guess() -> None:
    """A set that is only inferred is listed separately from tested ones."""
    found = solve_goal("npu", "paddle", "24.1.rc1.b030", "aarch64")

    assert found.best is None
    assert found.guess is not None and not found.guess.stated
    assert found.guess.versions["cann"] == "8.0.0"


def test_a_wheels_name_alone_is_a_guess() -> None:
    """The driver inferred from an Iluvatar wheel's file name is shown, but not as tested."""
    found = solve_goal("iluvatar", "torch", "4.3.8", "x86_64")

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
    goal, found = TABLE.goals[device, "torch"], solve_goal(device, "torch", driver, "x86_64")
    told = version_sets.SolveReport(device, "torch", driver, "x86_64", goal, found, {}, (), TABLE)

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
    """The builder of torch is derived from its version label and the cards; each builder has its own table."""
    packages = Packages("3.11.9", packages={"torch": version})
    found = detect.detect_versions(Facts(vendors=(VendorFacts(VENDORS[vendor]),), packages=packages))

    assert {name for name in found if name in ("torch-cuda", "torch-corex")} == {component} - {None}


def test_newer_sets_want_newer_drivers() -> None:
    """Each upgrade step needs a newer driver than the previous one and gives a newer set."""
    goal, found = TABLE.goals["npu", "torch"], solve_goal("npu", "torch", "24.1.rc2", "aarch64")
    steps = [found.best, *found.others]

    assert len(steps) >= 3 and all(steps)
    for older, newer in pairwise(steps):
        assert older is not None and newer is not None
        assert versions.compare_versions(newer.versions["npu-driver"], older.versions["npu-driver"]) == 1
        assert solver.is_newer_set(goal, newer, older)


def test_older_driver_is_named_where_no_newer_helps() -> None:
    """Where only older drivers have a tested set, the nearest is named."""
    found = solve_goal("iluvatar", "paddle", "4.4.0", "x86_64")

    assert [choice.versions["corex-driver"] for choice in found.others] == ["4.3.8"]


def test_python_that_is_here_stays() -> None:
    """A Python that the set works with is not changed for a newer one."""
    goal = TABLE.goals["nvidia", "paddle"]
    best = solver.solve_versions(goal, "570.124.06", "x86_64", python="3.10.14").best

    assert best is not None and best.versions["python"] == "3.10"


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(sorted(TABLE.goals)), drivers, st.sampled_from(("x86_64", "aarch64")))
def test_every_set_is_tested_throughout(kind: tuple[str, str], driver: str, architecture: str) -> None:
    """Whatever the driver, a set that is called tested has each link tested, by document and date, and nothing bad."""
    goal, found = TABLE.goals[kind], solve_goal(*kind, driver, architecture)
    for choice in (found.best, *found.others):
        if choice is None:
            continue
        verdicts = {(v.left, v.right): v for v in pair_verdicts.evaluate_pairs(choice.versions)}
        assert all(verdicts[link].standing is PairStatus.TESTED for link in goal.links)
        assert all(verdicts[link].source and verdicts[link].date for link in goal.links)
        assert not any(v.standing is PairStatus.BAD for v in verdicts.values())


@pytest.mark.parametrize("kind", TABLE.goals, ids=" ".join)
def test_nothing_newer_was_left_out(kind: tuple[str, str]) -> None:
    """For each driver that the tables name, no set of the tables that is tested throughout is newer than the answer."""
    goal = TABLE.goals[kind]
    for driver in solver.candidate_versions(goal.driver, TABLE):
        best = solve_goal(*kind, driver, "x86_64").best
        for newer in (
            v
            for v in solver.candidate_versions(goal.wanted[0], TABLE)
            if not best or _is_above(v, best, goal.wanted[0])
        ):
            held = {goal.driver: driver, "architecture": "x86_64", goal.wanted[0]: newer}
            assert not _is_possible(goal, goal.wanted[1:], held), held


def _is_above(version: str, best: VersionSet, name: str) -> bool:
    return versions.compare_versions(version, best.versions[name]) == 1


def _is_possible(goal: solver.SolverGoal, left: tuple[str, ...], held: dict[str, str]) -> bool:
    """Whether any choice of the other versions is fully tested: brute force over all, with the judge only."""
    standings = {(v.left, v.right): v.standing for v in pair_verdicts.evaluate_pairs(held)}
    if any(link in standings and standings[link] is not PairStatus.TESTED for link in goal.links):
        return False
    if not left:
        return all(link in standings for link in goal.links) and PairStatus.BAD not in standings.values()
    return any(_is_possible(goal, left[1:], {**held, left[0]: v}) for v in solver.candidate_versions(left[0], TABLE))
