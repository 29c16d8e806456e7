"""envcheck recipes show: the recipe's job on this machine, then the recipe's values."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pexpect
import pytest

from envcheck.core.errors import UsageError
from tests.conftest import ROOT


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


def test_the_file_is_printed_to_be_copied(run_on: Any, tmp_path: Path) -> None:
    """--toml prints the file with its comments; as a file of one's own it is the same recipe."""
    text = run_on("cpu", "recipes", "show", "tiny-cpu", "--toml").stdout
    (tmp_path / "tiny-cpu.toml").write_text(text)

    shown = run_on("cpu", "recipes", "show", "tiny-cpu", "--recipes", str(tmp_path)).stdout

    assert text == (ROOT / "installers" / "recipes" / "tiny-cpu.toml").read_text()
    assert f"file: {tmp_path / 'tiny-cpu.toml'}" in shown


@pytest.mark.parametrize(
    ("words", "other"),
    [
        ("--json show tiny-cpu --toml", "--json"),
        ("show tiny-cpu --toml --json", "--json"),
        ("show tiny-cpu --toml --as-published", "--as-published"),
        ("show tiny-cpu --toml --method lora", "--method"),
        ("show tiny-cpu --toml --device cpu", "--device"),
    ],
)
def test_the_file_is_printed_alone(run_on: Any, words: str, other: str) -> None:
    """--toml refuses options that it would ignore; --json of the group is one of them."""
    answer = run_on("cpu", "recipes", *words.split())

    assert isinstance(answer.exception, UsageError)
    assert f"--toml cannot be combined with {other}" in f"{answer.exception}"
    assert not answer.stdout


@pytest.mark.parametrize("words", [("show", "tiny-cpu"), ("create", "--", "python", "train.py", "--bf16", "true")])
def test_the_group_s_json_is_the_command_s(run_on: Any, words: tuple[str, ...]) -> None:
    """`recipes --json show` prints the document of `recipes show --json`."""
    outer, inner = (
        run_on("cpu", "recipes", *given).stdout for given in (("--json", *words), (words[0], "--json", *words[1:]))
    )

    assert json.loads(outer) == json.loads(inner)


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


def test_a_method_leaves_out_the_others(run_on: Any) -> None:
    """With --method the sections of other methods are gone, and all else stays."""
    whole, part = (
        run_on("cpu", "recipes", "show", "ernie-300b-npu", *more).stdout for more in ((), ("--method", "lora"))
    )
    jobs = [set(re.findall(r"^jobs\.(\w+)", page, re.M)) for page in (whole, part)]

    assert jobs[0] > jobs[1] == {"lora"}
    assert len(part.splitlines()) < len(whole.splitlines()) * 0.7
    assert "\nerrors in the published document\n" in part


def test_the_document_leaves_out_other_methods_too(run_on: Any) -> None:
    """--json with --method has the jobs of that method only, as the page."""
    said = json.loads(run_on("cpu", "recipes", "show", "ernie-300b-npu", "--method", "lora", "--json").stdout)

    assert {job["method"] for job in said["recipes"][0]["jobs"]} == {"lora"}


@pytest.mark.parametrize("words", (("--method", "dpo"), ("--method", "lora", "--device", "npu")))
def test_only_typed_options_are_in_conflict(run_on: Any, words: tuple[str, ...]) -> None:
    """The message has the options of the command line, not the device that is tried for lack of one."""
    caught = run_on("h200x8", "recipes", "show", "tiny-cpu", *words).exception

    assert isinstance(caught, UsageError)
    assert caught.message == f"recipe tiny-cpu has no job for {' '.join(words)}"
    assert "--method lora" in caught.next_step


@pytest.mark.slow
def test_a_terminal_has_a_pager(tmp_path: Path) -> None:
    """A long page goes through $PAGER on a terminal, a short one and a pipe do not."""
    pager = tmp_path / "pager"
    pager.write_text("#!/bin/sh\necho PAGED $(wc -l)\n")
    pager.chmod(0o755)
    env = {**os.environ, "PAGER": str(pager), "ENVCHECK_HOME": str(tmp_path / "home"), "TERM": "xterm"}
    argv = ["-m", "envcheck", "recipes", "show", "tiny-cpu"]
    long, short = (run_in_terminal([sys.executable, *argv], env, lines) for lines in (24, 400))
    piped = subprocess.run([sys.executable, *argv], env=env, cwd=ROOT, capture_output=True, text=True, timeout=60)

    assert "PAGED" in long and "PAGED" not in short + piped.stdout
    assert "tiny-cpu" in short and "tiny-cpu" in piped.stdout


def run_in_terminal(argv: list[str], env: dict[str, str], lines: int) -> str:
    """What the command shows on a terminal of this height."""
    size = (lines, 80)
    child = pexpect.spawn(argv[0], argv[1:], env=env, cwd=str(ROOT), timeout=60, dimensions=size, encoding="utf-8")
    child.expect(pexpect.EOF)
    return str(child.before)
