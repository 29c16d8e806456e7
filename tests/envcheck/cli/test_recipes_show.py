"""envcheck recipes show: the recipe's job on this machine, then the recipe's values."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest


def read_first_section(page: str) -> str:
    return page.split("\non this machine\n")[1].split("\n\n")[0]


def test_the_job_on_this_machine_comes_first(run_on: Any) -> None:
    """Image of the host's architecture, no privileges, and the judge's sentences."""
    section = read_first_section(
        run_on("atlas-800t-a2", "recipes", "show", "ernie-300b-npu", "--method", "lora").stdout
    )

    assert re.search(r"^  image = \S+aarch64\S*$", section, re.M)
    assert "  privileged = no" in section and "--privileged" not in section
    assert "  blocked by = cards: " in section and "  blocked by = architecture: " in section


def test_the_documents_own_options_are_shown_when_asked_for(run_on: Any) -> None:
    """--as-published: privileged, as the document has it."""
    section = read_first_section(run_on("bi-v150x8", "recipes", "show", "ernie-21b-iluvatar", "--as-published").stdout)

    assert "  privileged = yes" in section and "--privileged" in section


@pytest.mark.parametrize("machine", ["atlas-800t-a2", "bi-v150x8", "cpu"])
def test_no_page_says_other_than_provision(run_on: Any, machine: str) -> None:
    """The recipe's own line on privileges is that of the container which provision starts."""
    name = {"atlas-800t-a2": "ernie-300b-npu", "bi-v150x8": "ernie-21b-iluvatar", "cpu": "tiny-cpu"}[machine]

    page, shown = (run_on(machine, "recipes", "show", name, *more).stdout for more in ((), ("--json",)))

    container = json.loads(shown)["job"]["container"]
    said = set(re.findall(r"^  privileged = (yes|no)", page, re.M))
    assert said == ({"yes" if container["privileged"] else "no"} if container else set())


def test_a_machine_without_such_cards_is_said(run_on: Any) -> None:
    """The job is that of the recipe's host then."""
    section = read_first_section(run_on("cpu", "recipes", "show", "ernie-300b-npu").stdout)

    assert "  host = resolved for the recipe's host (Atlas 200T A2 Box16, x86_64)" in section


def test_the_job_alone_is_a_node_s_own(run_on: Any) -> None:
    """Without a method the recipe's job of one node is meant before one of many."""
    assert (
        json.loads(run_on("atlas-800t-a2", "recipes", "show", "ernie-300b-npu", "--json").stdout)["job"]["nodes"] == 1
    )
