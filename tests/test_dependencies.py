"""The libraries that envcheck requires: few, each with its reason, and in the oldest and newest versions."""

from __future__ import annotations

import configparser
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from envcheck.payload import pyz
from tests.conftest import ROOT

MOST = 16
PAGE = ROOT / "docs" / "reference" / "compatibility.md"
# Import names of distributions that are called otherwise.
IMPORTED = {"tree-sitter": "tree_sitter", "tree-sitter-bash": "tree_sitter_bash", "ahocorasick-rs": "ahocorasick_rs"}
# What a deprecated function of a library warns about is an error where our modules call it.
STRICT = """
import sys, warnings
sys.path.insert(0, sys.argv.pop(1))
for kind in (DeprecationWarning, PendingDeprecationWarning):
    warnings.filterwarnings("error", category=kind, module=r"(envcheck|probes|installers|launch)(\\.|$)")
from envcheck.cli.main import entry
entry()
"""
COMMANDS = (
    "doctor --json", "doctor -o report.html", "plan --model 21b --method lora --device npu --cards 16 --memory-gib 64",
    "provision --device cpu --dry-run", "train --model tiny --method lora --device cpu --dry-run", "lint run.sh",
    "explain OOM", "recipes", "solve --device npu --driver 24.1.rc1", "simulate --list", "schema plan",
)  # fmt: skip


def list_requirements() -> list[Requirement]:
    """The direct dependencies."""
    settings = configparser.ConfigParser()
    settings.read(ROOT / "setup.cfg")
    return [Requirement(line) for line in settings["options"]["install_requires"].split("\n") if line]


def run_strictly(python: str, words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command of this checkout with that Python's libraries."""
    argv = [python, "-c", STRICT, str(ROOT), *words.split()]
    env = {"HOME": str(folder), "PATH": os.defpath, "ENVCHECK_HOME": str(folder / "home"), "LANG": "C.UTF-8"}
    return subprocess.run(argv, cwd=folder, env=env, capture_output=True, text=True, timeout=120)


def test_few_and_each_with_a_reason() -> None:
    """The page has a row for each, and no more."""
    section = PAGE.read_text().split("## Dependencies")[1]
    rows = [line.split(" | ") for line in section.splitlines() if line.startswith("| `")]
    described = {canonicalize_name(name) for row in rows for name in re.findall(r"`([^`]+)`", row[0])}
    required = {canonicalize_name(requirement.name) for requirement in list_requirements()}

    assert described == required and len(required) <= MOST
    assert all(requirement.specifier for requirement in list_requirements()), "each has an oldest version"


def test_compiled_ones_are_optional_in_the_single_file() -> None:
    """Apart from psutil, what the page calls compiled is what the single file does without, or has as Python."""
    section = PAGE.read_text().split("## Dependencies")[1]
    names = re.findall(r"^\| (`.*?) \|.*\| optional \|$", section, re.M)
    optional = {IMPORTED.get(canonicalize_name(name), name) for row in names for name in re.findall(r"`([^`]+)`", row)}

    assert optional == {*pyz.WITHOUT, "pyyaml", "tomli"}
    assert re.search(r"^\| `psutil` \|.*\| yes \|$", section, re.M) and pyz.NATIVE == "psutil"
    assert {"yaml", *pyz.TOML} - {*pyz.LIBRARIES} == {*pyz.TOML}


@pytest.mark.slow
@pytest.mark.parametrize("words", COMMANDS)
def test_no_deprecated_function_is_used(words: str, tmp_path: Path) -> None:
    """With the installed versions."""
    (tmp_path / "run.sh").write_text("set -euo pipefail\necho ok\n")
    done = run_strictly(sys.executable, words, tmp_path)

    assert done.returncode in (0, 1, 3), done.stdout + done.stderr


@pytest.fixture(scope="module", params=["lowest-direct", "highest"])
def libraries(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A Python with the oldest allowed, or the newest, versions."""
    folder = tmp_path_factory.mktemp("libraries")
    subprocess.run([sys.executable, "-m", "venv", str(folder / "tool")], check=True, timeout=120)
    subprocess.run([str(folder / "tool" / "bin" / "pip"), "install", "-q", "uv"], check=True, timeout=300)
    uv, made = str(folder / "tool" / "bin" / "uv"), folder / "made"
    # The oldest versions are of a time when only the oldest Python was there.
    python = "3.10" if request.param == "lowest-direct" else sys.executable
    subprocess.run([uv, "venv", "-q", "--python", python, str(made)], check=True, timeout=300)
    install = [uv, "pip", "install", "-q", "--resolution", request.param, "-r", str(ROOT / "setup.cfg")]
    subprocess.run(install, env={**os.environ, "VIRTUAL_ENV": str(made)}, check=True, timeout=600)
    return str(made / "bin" / "python")


@pytest.mark.extended
def test_oldest_and_newest_versions(libraries: str, tmp_path: Path) -> None:
    """Commands work with both, and use nothing that is deprecated."""
    (tmp_path / "run.sh").write_text("set -euo pipefail\necho ok\n")
    failed = {
        words: done.stdout[-500:] + done.stderr[-500:]
        for words in COMMANDS
        if (done := run_strictly(libraries, words, tmp_path)).returncode not in (0, 1, 3)
    }

    assert failed == {}
