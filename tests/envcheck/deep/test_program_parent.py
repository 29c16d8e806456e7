"""Whether the program of the active tests ends with the process that started it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from envcheck.deep import program, subprocesses


@pytest.mark.parametrize(("environment", "death_signal"), [({}, int(signal.SIGKILL)), ({program.MARK: "job"}, 0)])
def test_only_a_container_lets_the_program_outlive_its_parent(environment: dict[str, str], death_signal: int) -> None:
    """There the parent is the engine's helper, which may leave while the framework is loaded; the target ends it."""
    code = f"""
import ctypes, importlib, sys
sys.path.insert(0, {str(subprocesses.PROGRAM.parent)!r})
import program
def answer(name):
    number = ctypes.c_int()
    ctypes.CDLL(None).prctl(2, ctypes.byref(number))  # PR_GET_PDEATHSIG
    raise SystemExit(print(number.value))
importlib.import_module = answer
program.main({{"kit": "any", "start_s": 60}})
"""
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **environment}, capture_output=True, text=True, check=True
    )

    assert done.stdout == f"{death_signal}\n"
