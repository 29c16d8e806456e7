"""Vendors of other distributions: what lint knows of their scripts, with a part for it and without one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

RECORD = """
from envcheck.core.vendor import Vendor, run_question

VENDOR = Vendor(
    name="acme",
    package=__name__,
    title="Acme",
    tool="acme-smi",
    parser="acme_cards.parser",
    pci_vendor="abcd",
    node_pattern="/dev/acme[0-9]*",
    devices=(run_question("acme-smi"),),
)
"""
LINT = """
from envcheck.core.lint.context import LintContext
from envcheck.core.lint.remark_builders import fail
from envcheck.core.lint.rule import LintRule
from envcheck.core.lint.vendor_vocabulary import VendorVocabulary
from envcheck.core.model import Status


def judge(context):
    for _, command in context.find_commands("acme-smi"):
        yield fail(command, "acme-smi is slow here", "Remove it from the list.")


WORDS = VendorVocabulary(signs=r"acme", own_variables=r"ACME_\\w+", packages=("acme-torch",))
RULES = (
    LintRule("acme.tool", Status.FAIL, "No slow tool.", "Acme's manual", judge),
    LintRule("paths.acme", Status.WARN, "No path of Acme's.", "Acme's manual", judge, after="paths.missing"),
)
"""
SCRIPT = """#!/bin/bash
set -euo pipefail
acme-smi
export ACME_DEBUG=1
export CUDA_VISIBLE_DEVICES=0,1
torchrun --nproc_per_node 2 train.py --device acme --output_dir out
docker run --rm --device /dev/acme0 --shm-size 64g acme/torch:1.0 true
pip install acme-torch
"""


def run_lint(folder: Path, *argv: str) -> dict[str, Any]:
    """The document of envcheck lint on SCRIPT, where the distribution in `folder` is installed."""
    (folder / "run.sh").write_text(SCRIPT)
    environment = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{Path(__file__).parents[3]}"}
    command = [sys.executable, "-m", "envcheck", "lint", str(folder / "run.sh"), "--json", "--no-shellcheck", *argv]
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode in (0, 1, 3), done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


@pytest.fixture
def distribution(tmp_path: Path) -> Path:
    """A folder of the path with an installed distribution that adds the vendor `acme`, the documented minimum of it."""
    package = tmp_path / "acme_cards"
    package.mkdir()
    (package / "__init__.py").write_text(RECORD)
    (package / "parser.py").write_text("def parse(text):\n    return []\n")
    metadata = tmp_path / "acme_cards-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-cards\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[envcheck.vendors]\nacme = acme_cards\n")
    return tmp_path


def list_rules(document: dict[str, Any]) -> list[str]:
    return [remark["rule"] for remark in document["findings"]]


def test_vendor_without_a_part_for_lint(distribution: Path) -> None:
    """Its scripts are known by its tool; rules for other cards are silent, and nothing crashes."""
    found = run_lint(distribution)

    assert found["device"] == "acme"
    assert {"container.npu", "container.cuda", "variables.visible_name", "packages.gpu_list"} & set(
        list_rules(found)
    ) == set()


def test_vendor_that_is_named(distribution: Path) -> None:
    """--device takes it as any other."""
    assert run_lint(distribution, "--device", "acme")["device"] == "acme"


def test_vendor_with_words_and_rules(distribution: Path) -> None:
    """Words of its lint.py reach the rules for all cards, and its own rules speak."""
    (distribution / "acme_cards" / "lint.py").write_text(LINT)

    found = list_rules(run_lint(distribution))
    elsewhere = list_rules(run_lint(distribution, "--device", "npu"))

    assert {"acme.tool", "paths.acme", "packages.unpinned"} <= set(found)
    assert "variables.no_effect" not in found
    assert "variables.no_effect" in elsewhere
