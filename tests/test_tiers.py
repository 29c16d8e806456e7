"""Test tiers: assignment, default selection without `-m`, and failure of a run in which a required tier has no passed
test."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests import tiers
from tests.conftest import LONG, ROOT

SUITE = """
import pytest

@pytest.fixture
def engine(): ...

def test_plain(): ...
def test_with_an_engine(engine): ...
@pytest.mark.slow
def test_slow_with_an_engine(engine): ...
@pytest.mark.parametrize("engine", ["a name"])
def test_with_the_name_of_an_engine(engine): ...
"""
SLOW_MODULE = """
import pytest

pytestmark = pytest.mark.slow

def test_slow(): ...
@pytest.mark.fast
def test_quick_all_the_same(): ...
@pytest.mark.parametrize("case", ["usual", pytest.param("rare", marks=pytest.mark.extended)])
def test_cases(case): ...
"""
FAST, REAL = (
    {"test_plain", "test_with_the_name_of_an_engine[a name]", "test_quick_all_the_same"},
    {"test_with_an_engine", "test_slow_with_an_engine"},
)
SLOW, EXTENDED = {"test_slow", "test_cases[usual]"}, {"test_cases[rare]"}


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    (tmp_path / "test_suite.py").write_text(SUITE)
    (tmp_path / "test_slow_module.py").write_text(SLOW_MODULE)
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --strict-markers\n")
    return tmp_path


def run_suite(suite: Path, *options: str, required: str = "") -> tuple[int, set[str], str]:
    """Return the exit code, the names of the passed tests, and the output."""
    argv = [sys.executable, "-m", "pytest", "-p", "tests.tiers", "-rp", "-p", "no:cacheprovider", *options]
    python_path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    env = {**os.environ, "PYTHONPATH": python_path, tiers.REQUIRED: required}
    done = subprocess.run(argv, cwd=suite, env=env, capture_output=True, text=True)
    passed = {line.partition("::")[2] for line in done.stdout.splitlines() if line.startswith("PASSED ")}
    return done.returncode, passed, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], FAST),
        (["."], FAST),
        (["-m", "fast"], FAST),
        (["-m", "real"], REAL),
        (["-m", "slow"], SLOW),
        (["-m", "extended"], EXTENDED),
        (["-m", "fast or real or slow"], FAST | REAL | SLOW),
        (["test_slow_module.py"], {"test_quick_all_the_same"} | SLOW),
        (["test_slow_module.py::test_cases"], SLOW - {"test_slow"} | EXTENDED),
    ],
)
def test_what_is_chosen(suite: Path, options: Sequence[str], expected: set[str]) -> None:
    """Each test is in one tier; tests named explicitly run."""
    code, passed, printed = run_suite(suite, *options)

    assert (code, passed) == (0, expected), printed


@pytest.mark.parametrize(
    "beside", [(), pytest.param(("-n", "2"), marks=pytest.mark.slow)], ids=["one process", "two workers"]
)
def test_each_required_tier_has_passed(suite: Path, beside: Sequence[str]) -> None:
    """The gate passes when every required tier has a passed test, and prints the counts."""
    code, _, printed = run_suite(suite, "-m", "fast or real or slow", *beside, required="fast,real,slow")

    assert code == 0, printed
    assert "fast: 3 passed, real: 2 passed, slow: 2 passed" in printed


@pytest.mark.parametrize(
    "beside", [(), pytest.param(("-n", "2"), marks=pytest.mark.slow)], ids=["one process", "two workers"]
)
def test_a_tier_that_collects_nothing_fails(suite: Path, beside: Sequence[str]) -> None:
    """A required tier without tests fails the gate even when all other tests pass."""
    (suite / "test_suite.py").unlink()

    code, passed, printed = run_suite(suite, "-m", "fast or real or slow", *beside, required="fast,real,slow")

    assert (code, passed) == (1, {"test_quick_all_the_same"} | SLOW), printed
    assert "no test of the tier real has passed" in printed


def test_a_tier_that_is_skipped_whole_fails(suite: Path) -> None:
    """Collected is not passed."""
    (suite / "test_suite.py").write_text(SUITE.replace("def engine(): ...", "def engine(): pytest.skip('none here')"))

    code, _, printed = run_suite(suite, "-m", "fast or real or slow", required="fast,real,slow")

    assert code == 1 and "no test of the tier real has passed" in printed


def test_nothing_at_all_fails(suite: Path) -> None:
    """A selection that matches no test fails the gate."""
    code, _, printed = run_suite(suite, "-k", "no_such_test", required="fast")

    assert code == 1 and "no test of the tier fast has passed" in printed


def test_what_is_real_is_refused_in_the_fast_tier(suite: Path) -> None:
    """A fast test that starts an engine fails with a message naming the missing mark."""
    lacking = "from tests import tiers\ndef test_it(): tiers.not_in_fast('an engine')\n"
    (suite / "test_unmarked.py").write_text(lacking)
    (suite / "test_marked.py").write_text("import pytest\npytestmark = pytest.mark.real\n" + lacking)

    refused, _, printed = run_suite(suite, "test_unmarked.py")
    allowed, _, _ = run_suite(suite, "test_marked.py")
    assert (refused, allowed) == (1, 0) and "mark this test `real`" in printed


def test_the_gate_requires_every_tier_that_it_runs() -> None:
    """`.ci/run` names the tiers of the README's command, and no test that is skipped passes there."""
    readme, gate = (ROOT / "README.md").read_text(), (ROOT / ".ci" / "run").read_text()

    assert '-m "fast or real or slow"' in readme
    assert f"{tiers.REQUIRED}=fast,real,slow" in gate and "ENVCHECK_SKIP_FAILS=1" in gate


DISTURBED = """
from pathlib import Path

def test_disturbed_once():
    mark = Path(__file__).with_name("mark")
    there = mark.exists()
    mark.touch()
    assert there

def test_fine(): ...
"""


@pytest.mark.slow
@pytest.mark.parametrize(("broken", "code"), [("", 0), ("\ndef test_broken(): assert False\n", 1)])
def test_the_gate_runs_failed_tests_once_more(tmp_path: Path, broken: str, code: int) -> None:
    """What passes alone is named and does not close the gate; what fails twice does."""
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "repeat", tmp_path / ".ci" / "repeat")
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    python = tmp_path / ".venv" / "bin" / "python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    (tmp_path / "test_suite.py").write_text(DISTURBED + broken)
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -p tests.tiers --strict-markers\n")
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_ADDOPTS": "", tiers.REQUIRED: ""}
    subprocess.run([str(python), "-m", "pytest", "-n", "0"], cwd=tmp_path, env=env, capture_output=True)

    done = subprocess.run([str(tmp_path / ".ci" / "repeat")], env=env, capture_output=True, text=True)

    printed = done.stdout + done.stderr
    assert done.returncode == code, printed
    assert "test_suite.py::test_disturbed_once" in printed and "test_fine" not in printed
    assert ("passed only when run alone" in printed) == (code == 0)


def test_nothing_that_failed_is_not_repeated(tmp_path: Path) -> None:
    """A run that broke before its tests stays a failure."""
    (tmp_path / ".ci").mkdir()
    repeat = shutil.copy(ROOT / ".ci" / "repeat", tmp_path / ".ci" / "repeat")

    done = subprocess.run([str(repeat)], capture_output=True, text=True)

    assert done.returncode == 1 and "0 failed tests: not run again" in done.stdout


@pytest.mark.parametrize("file", LONG)
def test_files_that_come_first_exist(file: str) -> None:
    """A file that was moved is named by its new place."""
    assert (ROOT / "tests" / file).is_file()
