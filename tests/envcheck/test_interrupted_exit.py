"""The exit code after a Ctrl-C that arrives in a piece of code that Python compiled from a text."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

BESIDE = "import threading, time\nthreading.Thread(target=time.sleep, args=(1,), daemon=True).start()\n"


@pytest.mark.parametrize("beside", ["", BESIDE], ids=["alone", "beside a thread"])
def test_interrupt_within_exec_is_no_signal(tmp_path: Path, beside: str) -> None:
    """The dataclasses of a module that is being imported are such texts; `python -m` remembers the interrupt there."""
    (tmp_path / "ended.py").write_text(
        "from envcheck import __main__\n"
        "from envcheck.cli import main\n"
        f"{beside}"
        "def stop(**_): exec('raise KeyboardInterrupt')\n"
        "main.main.main = stop\n"
        "__main__.run()\n"
    )

    done = subprocess.run([sys.executable, "-m", "ended"], cwd=tmp_path, capture_output=True, text=True)

    assert (done.returncode, done.stderr) == (130, "envcheck: interrupted\n")
