"""envcheck solve: the newest versions that are tested together on a driver, and what a newer set would want."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

import pytest
from doctor_helpers import MACHINES, simulated
from hypothesis import given, settings
from hypothesis import strategies as st

from envcheck import facts, versions
from envcheck.compat import here, judging, loading, solving, telling
from envcheck.compat.model import COMPONENTS, Standing
from envcheck.compat.solving import GOALS, Choice
from envcheck.model import Facts, Packages, VendorFacts

ROOT = Path(__file__).parent.parent
TABLE = loading.table()
REFUSALS = [
    (("--device", "gpu"), 2, "--device gpu could mean two vendors"),
    (("--device", "cpu"), 2, "--device cpu has no driver"),
    (("--driver", "4.3.0"), 2, "--driver says no vendor"),
    (("--device", "npu", "--driver", "x.x.x"), 2, "--driver 'x.x.x' is no version"),
    (("--device", "npu", "--driver", ""), 2, "--driver: an empty text"),
    (("--device", "npu", "--framework", "jax"), 2, "'jax' is not one of"),
    (("--device", "npu", "--architecture", "mips"), 2, "'mips' is not one of"),
    (("--replay", "there-is-none.json"), 2, "there-is-none.json"),
    (("--device", "npu"), 3, "the driver's version could not be told"),
]
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


def solve(*argv: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "envcheck", "solve", *argv]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)


def answer(device: str, framework: str, driver: str, architecture: str) -> solving.Answer:
    return solving.solve(GOALS[device, framework], driver, architecture)


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


def test_blanks_around_a_driver_do_not_matter() -> None:
    """A version that was copied with its blanks is read, and printed without them."""
    done = solve("--device", "npu", "--driver", " 24.1.rc1\t", "--architecture", "x86_64")

    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "npu, paddle: driver 24.1.rc1, x86_64")


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
    goal, found = GOALS[device, "torch"], answer(device, "torch", driver, "x86_64")
    told = telling.Told(device, "torch", driver, "x86_64", goal, found, {}, (), TABLE)

    assert any(line.strip().startswith(command) for line in telling.as_text(told, 80).splitlines())
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
    found = here.installed(Facts(vendors=(VendorFacts(vendor),), packages=packages))

    assert {name for name in found if name in ("torch-cuda", "torch-corex")} == {component} - {None}


def test_newer_sets_want_newer_drivers() -> None:
    """Each step up names a newer driver than the one before, and gives a newer set."""
    goal, found = GOALS["npu", "torch"], answer("npu", "torch", "24.1.rc2", "aarch64")
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
    goal = GOALS["nvidia", "paddle"]
    best = solving.solve(goal, "570.124.06", "x86_64", python="3.10.14").best

    assert best is not None and best.versions["python"] == "3.10"


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(sorted(GOALS)), drivers, st.sampled_from(("x86_64", "aarch64")))
def test_every_set_is_tested_throughout(kind: tuple[str, str], driver: str, architecture: str) -> None:
    """Whatever the driver, a set that is called tested has each link tested, by document and date, and nothing bad."""
    goal, found = GOALS[kind], answer(*kind, driver, architecture)
    for choice in (found.best, *found.others):
        if choice is None:
            continue
        verdicts = {(v.left, v.right): v for v in judging.judge(choice.versions)}
        assert all(verdicts[link].standing is Standing.TESTED for link in goal.links)
        assert all(verdicts[link].source and verdicts[link].date for link in goal.links)
        assert not any(v.standing is Standing.BAD for v in verdicts.values())


@pytest.mark.parametrize("kind", GOALS, ids=" ".join)
def test_nothing_newer_was_left_out(kind: tuple[str, str]) -> None:
    """For each driver that the tables name, no set of the tables that is tested throughout is newer than the answer."""
    goal = GOALS[kind]
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


@pytest.mark.parametrize("name", [name for name in MACHINES if name != "cpu"])
def test_machine_tells_its_versions(name: str) -> None:
    """From tools, files and metadata: driver, processor, Python and packages; nothing known bad is on our machines."""
    with simulated(name) as machine:
        found = facts.gather(machine)
    versions_here = here.installed(found)

    assert set(versions_here) <= set(COMPONENTS)
    assert {"architecture", "python", "numpy"} <= set(versions_here)
    assert any(goal.driver in versions_here for goal in GOALS.values())
    assert [v for v in judging.judge(versions_here, here.told(found)) if v.standing is Standing.BAD] == []


def test_firmware_is_judged_by_the_drivers_own_file() -> None:
    """The range in version.info makes a row: outside it the firmware is known bad, inside it is fine."""
    with simulated("atlas-800t-a2") as machine:
        found = facts.gather(machine)
    told = list(here.told(found))
    for firmware, standing in (("7.1.0.6.220", Standing.TESTED), ("7.3.0", Standing.BAD), ("6.9", Standing.BAD)):
        verdict = judging.pair(
            "npu-driver", "npu-firmware", {"npu-driver": "24.1.rc1.b030", "npu-firmware": firmware}, told
        )
        assert verdict is not None and verdict.standing is standing


def test_screen_on_a_machine() -> None:
    """On a machine the screen says what is as here and what is not, who says so, and what to install; 60 columns."""
    done = _on("atlas-200t-a2-box16")

    assert done.returncode == 0, done.stderr
    assert "Newest tested set for this driver:" in done.stdout
    assert "CANN               8.0.RC1   as here" in done.stdout
    assert "here 3.1.0" in done.stdout
    assert "documented, 2025-07" in done.stdout
    assert "pip install paddlepaddle==3.1.0a0 -i https://www.paddlepaddle.org.cn/packages/stable/cpu/" in done.stdout
    wide = [line for line in done.stdout.splitlines() if len(line) > 60]
    assert [line for line in wide if not line.startswith(("  pip ", "  image ", "    https://"))] == []


def test_screen_of_a_set_for_torch() -> None:
    """The same for torch, as one document: versions, changes, verdicts with sources, commands."""
    done = _on("atlas-800t-a3", "--framework", "torch", "--json")
    said = json.loads(done.stdout)

    assert done.returncode == 0
    assert said["tested"]["versions"]["torch-npu"] == "2.12.0.post2"
    assert "cann" in said["tested"]["change"] and "npu-driver" not in said["tested"]["change"]
    assert all(each["source"] and each["date"] for each in said["tested"]["because"])
    assert "pip install torch-npu==2.12.0.post2" in said["tested"]["commands"]
    assert {v["verdict"] for v in said["judged"]} <= {"tested", "known bad", "unknown"}


def test_packages_that_are_not_there_are_to_be_installed() -> None:
    """A set of which nothing is here differs in nothing that is here, and yet there is something to do."""
    done = _on("atlas-800t-a2", "--framework", "torch")

    assert "nothing to change" not in done.stdout
    assert "pip install torch-npu==" in done.stdout


def test_no_set_ends_with_1() -> None:
    """Where no tested set is known the exit code is 1, and the screen says what to do."""
    done = solve("--device", "npu", "--driver", "25.5.2", "--architecture", "aarch64")

    assert done.returncode == 1
    assert "No tested set is known for this driver." in done.stdout
    assert "envcheck doctor --deep" in done.stdout


def test_another_driver_is_advised_only_where_one_helps() -> None:
    """No wheel of paddlepaddle-gpu is for aarch64, whatever the driver: another framework is asked for instead."""
    done = solve("--device", "nvidia", "--driver", "550.54.15", "--architecture", "aarch64")

    assert done.returncode == 1
    assert "--framework" in done.stdout and "another driver" not in done.stdout


def test_what_is_here_and_nobody_calls_bad_is_unknown() -> None:
    """A whole set is installed, stated in parts and nowhere bad: unknown, with the pairs that nobody states; 3."""
    done = _on("atlas-800t-a2")
    said = json.loads(_on("atlas-800t-a2", "--json").stdout)
    open_ = {tuple(v["components"].values()) for v in said["judged"] if v["confidence"] == "inferred"}

    assert (done.returncode, said["verdict"], said["tested"]) == (3, "unknown", None)
    assert "Unknown: no tested set is known for this driver." in done.stdout
    assert open_ == {("3.1.0", "3.1.0"), ("3.1.0", "aarch64")}
    assert "3.1.0 with processor aarch64; it is named with" in " ".join(done.stdout.split())
    assert "3.1.0 with CANN" not in done.stdout
    assert "CANN               8.0.0" not in done.stdout


def test_what_is_here_counts_for_its_own_driver_alone() -> None:
    """The installed set says nothing of another driver, nor where a pair of it is known bad."""
    goal = GOALS["npu", "paddle"]
    here_ = {"npu-driver": "24.1.rc1", "architecture": "aarch64", "cann": "8.0.RC1", "python": "3.10"}
    here_ |= {"paddlepaddle": "3.1.0", "paddle-custom-npu": "3.1.0"}

    def told(driver: str, found: dict[str, str]) -> telling.Told:
        answered = solving.Answer(None)
        return telling.Told("npu", "paddle", driver, "aarch64", goal, answered, found, judging.judge(found), TABLE)

    assert telling.exit_code(told("24.1.rc1", here_)) == 3
    assert telling.exit_code(told("25.5.2", here_)) == 1
    assert telling.exit_code(told("24.1.rc1", {**here_, "paddlepaddle": "3.3.0"})) == 1
    assert telling.exit_code(told("24.1.rc1", {name: v for name, v in here_.items() if name != "cann"})) == 1


def test_driver_that_does_not_answer_is_told() -> None:
    """Where the tool is gone and no file tells the driver: 3, and the option that says it."""
    done = _on("bi-v150x8", faults=("tool-missing",))

    assert done.returncode == 3
    assert "could not be told" in done.stderr and "--driver VERSION" in done.stderr


def test_known_bad_pair_of_the_machine_is_shown() -> None:
    """What is installed and known to fail together stands on the screen with what happens and what to do."""
    goal = GOALS["npu", "paddle"]
    found = {"npu-driver": "24.1.rc1", "architecture": "x86_64", "numpy": "2.4.0", "paddlepaddle": "3.1.0\x1b[31m"}
    found["cann"] = "8.0.RC1"
    answered = solving.solve(goal, "24.1.rc1", "x86_64")
    told = telling.Told("npu", "paddle", "24.1.rc1", "x86_64", goal, answered, found, judging.judge(found), TABLE)
    screen = telling.as_text(told, 60)

    assert "Known bad here:\n  CANN 8.0.RC1 with numpy 2.4.0: 500001" in screen
    assert "\x1b" not in screen


@pytest.mark.parametrize(("argv", "code", "said"), REFUSALS, ids=[" ".join(a) or "-" for a, _, _ in REFUSALS])
def test_refusals(argv: tuple[str, ...], code: int, said: str) -> None:
    """What was asked wrongly, or cannot be told, is one sentence with a next step, and the documented exit code."""
    done = solve(*argv)

    assert done.returncode == code
    assert said in done.stderr and "next: " in done.stderr
    assert "Traceback" not in done.stderr and not done.stdout


def test_snapshot_is_solved_like_the_machine(tmp_path: Path) -> None:
    """A recording gives the answer that the machine gave."""
    place = tmp_path / "a2.json"
    taken = _run_on("atlas-200t-a2-box16", "snapshot", "-o", str(place))
    assert taken.returncode == 0, taken.stderr

    replayed, live = solve("--replay", str(place), "--json"), _on("atlas-200t-a2-box16", "--json")

    assert json.loads(replayed.stdout) == json.loads(live.stdout)


def test_nothing_of_a_framework_is_imported() -> None:
    """Versions are read from metadata: no framework, nor docker, is loaded in envcheck's own process."""
    heavy = ("paddle", "torch", "torch_npu", "numpy", "docker", "rich")
    code = f"""
import sys
from envcheck import cli
try:
    cli.entry(["solve", "--device", "npu", "--driver", "24.1.rc1", "--architecture", "x86_64"])
except SystemExit as ended:
    print([name for name in {heavy!r} if name in sys.modules], ended.code)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120)

    assert done.stdout.splitlines()[-1] == "[] 0"


def _on(name: str, *argv: str, faults: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    return _run_on(name, "solve", *argv, faults=faults)


def _run_on(name: str, verb: str, *argv: str, faults: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """A verb on a simulated machine, on a terminal of 60 columns."""
    wrong = [word for fault in faults for word in ("--fault", fault)]
    command = [sys.executable, "-m", "envcheck", "simulate", name, *wrong, "--", sys.executable, "-m", "envcheck"]
    env = {**os.environ, "COLUMNS": "60"}
    return subprocess.run([*command, verb, *argv], cwd=ROOT, capture_output=True, text=True, timeout=300, env=env)


SCREENS = (
    ("atlas-800t-a2", ()),
    ("atlas-200t-a2-box16", ()),
    ("atlas-800t-a3", ()),
    ("h200x8", ("--framework", "torch")),
)


@pytest.mark.parametrize(("machine", "asked"), SCREENS, ids=[name for name, _ in SCREENS])
def test_screen_in_chinese(machine: str, asked: tuple[str, ...]) -> None:
    """Headings, what is lacking, and the next step are Chinese; versions and commands are those of the English one."""
    chinese, english = _on(machine, *asked, "--lang", "zh"), _on(machine, *asked, "--lang", "en")
    headings = [line for line in chinese.stdout.splitlines() if line and not line.startswith(" ")]
    commands = [line for line in english.stdout.splitlines() if line.startswith(("  pip ", "  envcheck "))]

    assert chinese.returncode == english.returncode
    assert [line for line in headings if not re.search("[\u4e00-\u9fff]|^npu|^nvidia", line)] == []
    assert set(commands) <= set(chinese.stdout.splitlines())
