"""`envcheck parse` as a user runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

CARD = Path(__file__).parents[2] / "data" / "npu_smi" / "list" / "two_cards.txt"


def run_parse(*args: str, given: bytes = b"", env: dict[str, str] | None = None) -> subprocess.CompletedProcess[bytes]:
    argv = [sys.executable, "-m", "envcheck", "parse", *args]
    return subprocess.run(argv, input=given, capture_output=True, timeout=60, env=os.environ | (env or {}), check=False)


@pytest.mark.slow
def test_a_file_and_standard_input_give_the_same_document() -> None:
    """FILE, - and no FILE at all are three ways to hand over one text."""
    answers = [
        run_parse("npu-smi", str(CARD)),
        *(run_parse("npu-smi", *rest, given=CARD.read_bytes()) for rest in ((), ("-",))),
    ]

    assert {answer.returncode for answer in answers} == {0}
    assert len({answer.stdout for answer in answers}) == 1
    assert json.loads(answers[0].stdout)["kind"] == "list"


def test_text_that_is_no_output_is_quoted_and_ends_with_1() -> None:
    """Exit code 1, kind unknown on standard output, and the first line quoted on standard error."""
    answer = run_parse("npu-smi", given=b"\n  good morning\nthe hall is cold\n")

    assert answer.returncode == 1
    assert json.loads(answer.stdout)["kind"] == "unknown"
    assert b"'good morning'" in answer.stderr


@pytest.mark.parametrize("args", [("npu-smi", "no/such/file"), ("npu-smi", "."), ("rocm-smi", str(CARD))])
def test_what_cannot_be_read_is_said_with_a_next_step(args: tuple[str, str]) -> None:
    """A missing file, a folder and an unknown tool end with 2 and one sentence, without a document."""
    answer = run_parse(*args)

    assert answer.returncode == 2
    assert answer.stdout == b""
    assert answer.stderr.startswith(b"envcheck: ")
    assert b"next: " in answer.stderr


def test_powershells_utf_16_is_read() -> None:
    """Text that a Windows shell redirected is read as well."""
    answer = run_parse("npu-smi", given=CARD.read_text(encoding="utf-8").encode("utf-16"))

    assert json.loads(answer.stdout)["detail"]["total_count"] == 2


def test_any_locale_prints_the_document() -> None:
    """Characters that the locale cannot encode are escaped."""
    answer = run_parse(
        "npu-smi", given="Get 网络 failed, because no ip was preset there!\n".encode(), env={"LC_ALL": "C"}
    )

    assert "网络" in json.loads(answer.stdout)["error"]["message"]


def test_an_endless_file_is_read_in_part(tmp_path: Path) -> None:
    """A device that never ends is answered, from its beginning."""
    if not Path("/dev/zero").exists():
        pytest.skip("this system has no /dev/zero")

    assert run_parse("npu-smi", "/dev/zero").returncode == 1
