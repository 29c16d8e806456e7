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


FINALIZER = """
import os, signal, sys, time
from envcheck import __main__
from envcheck.cli import main
from envcheck.core.process import terminate_children_on_error

class Finalizer:
    def __del__(self):
        os.kill(os.getpid(), signal.{name})
        time.sleep(0.01)

def wait(**_):
    with terminate_children_on_error():
        Finalizer()
        time.sleep(60)

main.main.main = wait
__main__.run()
"""


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_signal_within_a_finalizer_is_not_lost(tmp_path: Path, name: str, code: int) -> None:
    """Python ignores exceptions in finalizers, also those of signal handlers."""
    (tmp_path / "ended.py").write_text(FINALIZER.format(name=name))

    done = subprocess.run([sys.executable, "-m", "ended"], cwd=tmp_path, capture_output=True, text=True, timeout=50)

    assert (done.returncode, done.stderr) == (code, "envcheck: interrupted\n" if code == 130 else "")


EARLY = """
import os, signal, sys
from envcheck import __main__

class Stop:
    def find_spec(self, name, path=None, target=None):
        if name == {name!r}:
            os.kill(os.getpid(), signal.SIGINT)
            exec("")

sys.meta_path.insert(0, Stop())
sys.argv = ["envcheck", "doctor", "--device", "cpu"]
__main__.run()
"""


@pytest.mark.parametrize(
    "name", ["envcheck.cli.main", "click", "envcheck.cli.commands.doctor", "envcheck.collect.facts"]
)
def test_an_interrupt_during_imports_is_silent(tmp_path: Path, name: str) -> None:
    """Ctrl-C while a module is read, first or later, ends with 130 and without a traceback."""
    (tmp_path / "ended.py").write_text(EARLY.format(name=name))

    done = subprocess.run([sys.executable, "-m", "ended"], cwd=tmp_path, capture_output=True, text=True)

    assert (done.returncode, done.stderr in ("", "envcheck: interrupted\n"), done.stdout) == (130, True, ""), done
