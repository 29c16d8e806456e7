"""The options of launchers, and the values that they accept."""

from __future__ import annotations

import pytest

from envcheck.core.model import Status
from envcheck.lint import linter
from envcheck.scripts import source_file
from envcheck.scripts.launchers import LAUNCHERS


def list_launcher_remarks(options: str, launcher: str = "accelerate launch") -> list[tuple[Status, str, str]]:
    raw = f"#!/bin/bash\n{launcher} {options} train.py --frobs 4\n".encode()
    result = linter.lint_source(source_file.make_source("run.sh", raw), others=False)
    found = [each for each in result.remarks if each.rule == "launch.option"]
    return [(each.severity, str(each.seen), str(each.remedy)) for each in found]


@pytest.mark.parametrize(
    ("options", "severity", "seen", "remedy"),
    [
        ("--num_procs 8", Status.FAIL, "accelerate has no option --num_procs", "Write --num_processes."),
        ("--mixed_precison bf16", Status.FAIL, "has no option --mixed_precison", "Write --mixed_precision."),
        ("--mixed_precision bf17", Status.FAIL, "bf17 is not one of no, fp16, bf16, fp8", "--mixed_precision bf16."),
        ("--mixed-precision=int4", Status.FAIL, "int4 is not one of no, fp16, bf16, fp8", "one of these values"),
        ("--fsdp_version 3", Status.FAIL, "3 is not one of 1, 2", "one of these values"),
        ("--frobs 3", Status.WARN, "accelerate 1.15.0 has no option --frobs", "after the program"),
    ],
)
def test_options_that_accelerate_rejects(options: str, severity: Status, seen: str, remedy: str) -> None:
    """Misspelt options, values that are no choice, and options that it does not have are reported."""
    ((found, words, do),) = list_launcher_remarks(options)

    assert found is severity
    assert seen in words
    assert remedy in do


@pytest.mark.parametrize(
    "options",
    [
        "--num-processes 8 --mixed_precision bf16 --multi_gpu",
        "-q --num_processes 8 -t 3 --fp8_margin 1 --megatron_lm_tp_degree 2 --parallelism_config_tp_size 2",
        "--mixed_precision $PRECISION --num_processes ${N:-8}",
        "--mixed_precision ${PRECISION:-bf17}",
    ],
)
def test_options_that_accelerate_accepts(options: str) -> None:
    """Its own options, with dashes, short or with unknown values, are no remark; nor are those of the program."""
    assert list_launcher_remarks(options) == []


def test_unlisted_options_of_other_launchers() -> None:
    """An option that resembles none is no remark where the list of a launcher's options may have gaps."""
    assert list_launcher_remarks("--frobs 3", "torchrun") == []


def test_choices_are_of_listed_options() -> None:
    """Every option with a list of values is one of its launcher."""
    assert all(set(launcher.choices) <= launcher.all_options for launcher in LAUNCHERS)
