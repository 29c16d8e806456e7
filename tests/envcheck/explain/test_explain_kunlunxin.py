"""Logs of failures on Kunlunxin cards, and of other vendors' cards with similar words, each with the cause it has."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import pytest

from envcheck.core.process import CommandResult
from envcheck.explain import explainer, kernel_log

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FILE = Path(__file__).parents[2] / "data" / "training_logs" / "kunlunxin_failures.toml"


@dataclasses.dataclass(frozen=True)
class LabelledLog:
    source: str
    cause: str
    text: str


LOGS = [LabelledLog(**table) for table in tomllib.loads(FILE.read_text(encoding="utf-8"))["logs"]]


def list_causes(log: LabelledLog) -> list[str]:
    """The names of the log's diagnoses, in the order in which they are shown."""
    scan = explainer._scan_lines("workerlog.0", log.text.strip("\n").splitlines())
    return [diagnosis.name for diagnosis in explainer.build_report([scan]).diagnoses]


@pytest.mark.parametrize("log", [log for log in LOGS if log.cause], ids=lambda log: log.source[-32:])
def test_cause_comes_first(log: LabelledLog) -> None:
    """The labelled cause is the first diagnosis of the log."""
    assert list_causes(log)[:1] == [log.cause]


@pytest.mark.parametrize("log", [log for log in LOGS if not log.cause], ids=lambda log: log.source[-32:])
def test_other_vendors(log: LabelledLog) -> None:
    """A log of another vendor's cards is not explained as one of Kunlunxin's."""
    assert not [name for name in list_causes(log) if name.startswith("kunlunxin.")]


def test_applies_to_kunlunxin_only() -> None:
    """Every entry of the area names the vendor."""
    assert {e.applies for e in explainer.load_index().entries.values() if e.area == "kunlunxin"} == {("xpu",)}


def test_kernel_log_of_kunlunxin() -> None:
    """Lines of the driver's log are among those of the kernel log that are read."""
    line = "2026-11-22T10:00:00 KLRM: Xid (PCI:0000:16:00): 0, pid=7, name=python, KL_XID_KERNEL_EXCEPTION, ch=0"
    lines = kernel_log.read_lines(run=lambda argv, timeout_s: CommandResult(tuple(argv), 0, f"x\n{line}\n", ""))

    assert lines == (line,)
