"""What is printed fits the terminal's encoding."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from envcheck.report import Style


@pytest.mark.parametrize(
    ("encoding", "text", "printed"),
    [
        ("utf-8", "8 × 昇腾 ✓", "8 × 昇腾 ✓"),
        ("gbk", "8 × 昇腾", "8 × 昇腾"),
        ("gbk", "昇腾 ✓", "昇腾 ?"),
        ("ascii", "8 × NPU", "8 x NPU"),
        ("no-such-encoding", "8 × NPU", "8 ? NPU"),
    ],
)
def test_text_fits_the_encoding(encoding: str, text: str, printed: str) -> None:
    """Characters that the encoding has are kept, all others are replaced; nothing raises."""
    assert Style(encoding=encoding).fit(text) == printed


def test_chinese_terminal_with_gbk() -> None:
    """On a GBK terminal the report is readable Chinese, its marks are ASCII."""
    environment = {**os.environ, "PYTHONIOENCODING": "gbk", "ENVCHECK_LANG": "zh", "LC_ALL": "C.UTF-8"}
    argv = [sys.executable, "-m", "envcheck", "doctor", "--only", "host", "--device", "cpu"]
    done = subprocess.run(argv, capture_output=True, env=environment, check=False)

    assert "主机" in done.stdout.decode("gbk")
    assert b"Traceback" not in done.stderr
