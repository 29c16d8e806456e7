"""Which recipe `envcheck provision` selects: in text, asked at a terminal, and in the JSON document."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pexpect
import pytest

from tests.installers.provision_helpers import ROOT, write_recipe


def provision_on(machine: str, home: Path, *options: str) -> subprocess.CompletedProcess[str]:
    words = ("simulate", machine, "--", sys.executable, "-m", "envcheck", "provision", "--dry-run", *options)
    env = {**os.environ, "ENVCHECK_HOME": str(home)}
    return subprocess.run(
        [sys.executable, "-m", "envcheck", *words], cwd=ROOT, env=env, capture_output=True, text=True, timeout=120
    )


def test_the_plan_says_why(tmp_path: Path) -> None:
    """The suitable recipe is selected, and what this machine lacks for the default one is reported, also in JSON."""
    shown, told = (provision_on("atlas-800t-a2", tmp_path, "--device", "npu", *more) for more in ((), ("--json",)))
    document = json.loads(told.stdout)

    assert shown.stdout.startswith("qwen-7b-npu-swift in container envcheck-qwen-7b-swift\n")
    assert "  selected     qwen-7b-npu-swift is the largest recipe that fits this machine" in shown.stdout
    assert "ernie-300b-npu does not fit: this job needs 16 devices; 8 found" in document["reason"]
    assert (document["job"]["recipe"], document["assumed_host"]) == ("qwen-7b-npu-swift", "")


def test_no_recipe_fits(tmp_path: Path) -> None:
    """If no recipe fits: exit code 1, with what this machine lacks for each recipe; with --json one document."""
    shown, told = (
        provision_on("atlas-800t-a3", tmp_path, "--framework", "erniekit", *more) for more in ((), ("--json",))
    )
    document = json.loads(told.stdout)

    assert (shown.returncode, told.returncode, document["result"], document["recipe"]) == (1, 1, "failed", None)
    assert "envcheck: no recipe for this request fits this machine" in shown.stderr
    assert "    ernie-300b-npu: recipe ernie-300b-npu supports x86_64 only; this host is aarch64" in shown.stderr
    assert {each["recipe"] for each in document["rejected_recipes"]} == {
        "ernie-300b-npu",
        "ernie-21b-npu",
        "ernie-0.3b-npu",
    }


def test_the_host_that_is_assumed(tmp_path: Path) -> None:
    """Without a device the first line names the assumed host, and that is an obstacle."""
    shown = provision_on("cpu", tmp_path, "--device", "iluvatar")

    first = "resolved for the recipe's host (Iluvatar BI-V150, x86_64): this machine has no Iluvatar CoreX device"
    assert shown.stdout.splitlines()[0] == first
    assert "this job needs Iluvatar CoreX devices; this machine has none" in shown.stdout
    assert shown.returncode == 1


@pytest.mark.slow
@pytest.mark.parametrize(("typed", "chosen"), [("", "other"), ("twin", "twin")])
def test_a_person_chooses(typed: str, chosen: str, tmp_path: Path) -> None:
    """Equally suitable recipes are offered at a terminal without --yes; an empty answer takes the first."""
    for name in ("other", "twin"):
        folder = write_recipe(tmp_path / "recipes", "alpha", name=name)
    env = {**os.environ, "ENVCHECK_HOME": str(tmp_path / "home"), "COLUMNS": "100"}
    words = ["-m", "envcheck", "provision", "--recipes", str(folder), "--framework", "test"]
    child = pexpect.spawn(sys.executable, words, cwd=str(ROOT), env=env, encoding="utf-8", timeout=60)
    child.expect_exact("Which recipe? (other, twin) [other]: ")
    child.sendline(typed)
    child.expect(rf"{chosen} in\s")
    child.expect_exact("Continue? [y/N]: ")
    child.sendline("n")
    child.expect(pexpect.EOF)
    child.close()

    assert "no changes made" in (child.before or "")
