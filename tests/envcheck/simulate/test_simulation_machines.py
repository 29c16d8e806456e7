"""Machine descriptions: any file is read or refused with a message; and the tools built from them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envcheck.core import process
from envcheck.core.errors import UsageError
from envcheck.simulate import faults
from envcheck.simulate.build import write_simulation
from envcheck.simulate.machine_file import OWN, load_machine, parse_machine

GOOD = (OWN / "atlas-800t-a2.toml").read_text()


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('vendor = "npu"', 'vendor = "abacus"', "vendor must be one of"),
        ('title = "', 'title = "\\n', "one line of printable text"),
        ("memory_mib = 65536", 'memory_mib = "a lot"', "memory_mib: expected a whole number"),
        ("memory_mib = 65536", "memory_mib = -1", "0 or greater"),
        ("memory_mib = 65536", "memory_mib = true", "a whole number"),
        ("memory_mib = 65536", f"memory_mib = {'9' * 5000}", "not valid TOML"),
        ("power_w = 92.0", "power_w = nan", "0 or greater"),
        ("power_w = 92.0", f"power_w = 1{'0' * 400}", "0 or greater"),
        ("idle_mib = 3314", "idle_mib = 70000", "idle_mib exceeds"),
        ('"0000:C1:00.0"', '"0000:C2:00.0"', "must be unique"),
        ('"0000:C1:00.0"', '"$(reboot)"', "look like"),
        ('toolkit = "8.0.RC1"', 'toolkit = "../../../etc"', "must be versions"),
        ('hostname = "atlas-a2-0"', 'hostname = "a b"', "hostname"),
        ('inside = "HCCS"', 'inside = "HCCS"\nlost = [1]', "lost: unknown key"),
        ('inside = "HCCS"', 'inside = "HCCS"\ngroups = [[0, 1]]', "every device exactly once"),
        ('cpu_affinity = ["144-167", ', "cpu_affinity = [", "one entry for each"),
        ("[driver]", "[drivel]", "drivel: unknown key"),
        ('[docker]\nversion = "26.1.3"', "[docker]", "docker.version: missing"),
        ("[host]", "[host", "not valid TOML"),
        ("cpus = 192", "cpus = 0", "cpus"),
        ("[environment]", "[environment]\n'A;rm' = ''", "environment"),
    ],
)
def test_malformed_machine_is_one_sentence(old: str, new: str, words: str) -> None:
    """Any mistake in a description is reported with file and key; nothing is written."""
    assert old in GOOD
    with pytest.raises(UsageError) as refused:
        parse_machine(GOOD.replace(old, new, 1), "mine", "mine.toml")

    assert words in refused.value.message
    assert refused.value.message.startswith("mine.toml")
    assert len(refused.value.message.splitlines()) == 1


@settings(max_examples=60, deadline=None)
@given(st.integers(0, len(GOOD)), st.text(max_size=20))
def test_hostile_machine_never_crashes(place: int, junk: str) -> None:
    """Any text in any place gives a machine or a message."""
    try:
        parse_machine(GOOD[:place] + junk + GOOD[place:], "mine", "mine.toml")
    except UsageError as refused:
        assert refused.message


def test_own_machine_wins(tmp_path: Path) -> None:
    """A user's machine of the same name takes precedence, and envcheck's other names stay."""
    (tmp_path / "cpu.toml").write_text((OWN / "cpu.toml").read_text().replace("cpu-0", "mine"))

    assert load_machine("cpu", tmp_path).host.hostname == "mine"
    assert load_machine("h200x8", tmp_path) == load_machine("h200x8")


def test_huge_and_foreign_files(tmp_path: Path) -> None:
    """A file that is too large or not UTF-8, a folder or a pipe gives a message."""
    (tmp_path / "huge.toml").write_text("#" * 100_000)
    (tmp_path / "latin.toml").write_bytes(b'title = "\xe9"')
    (tmp_path / "folder.toml").mkdir()
    os.mkfifo(tmp_path / "pipe.toml")

    for name in ("huge", "latin", "folder", "pipe", "../machines/cpu"):
        with pytest.raises(UsageError):
            load_machine(name, tmp_path)


def test_tools_are_plain_shell(tmp_path: Path) -> None:
    """A simulated tool starts no interpreter except sh, so that it answers as fast as a real one."""
    write_simulation(load_machine("atlas-200t-a2-box16"), tmp_path, 1e9)
    told = (tmp_path / "bin" / "npu-smi").read_text()

    assert told.startswith("#!/bin/sh\n") and "python" not in told


def test_hanging_tool_leaves_nobody(tmp_path: Path) -> None:
    """A hanging tool is ended at its deadline, with all its children."""
    write_simulation(faults.apply_faults(load_machine("h200x8"), [faults.parse_fault("tool-hang=599")]), tmp_path, 1e9)

    assert process.run_command([str(tmp_path / "bin/nvidia-smi")], timeout_s=0.3).hung
    assert not [p for p in psutil.Process().children(recursive=True) if "599" in " ".join(p.cmdline())]


def test_scripts_pass_shellcheck(tmp_path: Path) -> None:
    """shellcheck reports nothing about the executables."""
    checker = shutil.which("shellcheck", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if not checker:
        pytest.skip("shellcheck is not installed")
    for name in ("atlas-800t-a3", "bi-v150x8"):
        folder = tmp_path / name
        folder.mkdir()
        write_simulation(load_machine(name), folder, 1e9)
        done = subprocess.run([checker, *map(str, (folder / "bin").iterdir())], capture_output=True, text=True)

        assert done.returncode == 0, done.stdout
