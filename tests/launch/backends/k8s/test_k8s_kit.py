"""What of envcheck goes to a pod: small enough for a ConfigMap, and all that its gates load."""

from __future__ import annotations

import ast
import base64
import io
import json
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from envcheck.simulate import machine_file, session
from launch.backends.k8s import package

CONFIGMAP = 1 << 20  # bytes of all values, as the API server counts them
MACHINES = {  # a machine, and jobs that a pod of it may be given
    "atlas-800t-a2": (
        ("--recipe", "qwen-7b-npu-swift", "--method", "lora", "--variant", "zero3", "--set", "lora_rank=16"),
        (
            "--recipe",
            "ernie-300b-npu",
            "--method",
            "sft",
            "--rank",
            "1",
            "--master",
            "192.0.2.1",
            "--host",
            "192.0.2.9",
        ),
    ),
    "h200x8": (("--recipe", "ernie-0.3b-nvidia", "--method", "lora", "--waive", "disk", "--because", "it is small"),),
    "bi-v150x8": (("--recipe", "ernie-21b-iluvatar", "--method", "lora", "--json"),),
}
# As board.py begins, with nothing but the standard library beside what was sent.
PROGRAM = """
import json, os, sys
{first}
sys.path[:0] = [sys.argv[1]]
sys.path.append(sys.argv[1] + "/spare")
from envcheck.cli import main as cli
for words in json.loads(sys.argv[2]):
    print("code", cli._code(["train", "--gates", *words]))
"""
# The oldest Python that is taken reads no TOML by itself, and its image need not have a pip to borrow from.
OLDEST = "sys.modules |= {'tomllib': None, 'pip': None}; sys.version_info = (3, 10, 0, 'final', 0)"


@pytest.fixture(scope="module")
def sent() -> bytes:
    return base64.b64decode(package.kit().base64)


@pytest.fixture(scope="module")
def unpacked(sent: bytes, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kit")
    with tarfile.open(fileobj=io.BytesIO(sent), mode="r:xz") as archive:
        archive.extractall(folder)
    return folder


@pytest.mark.slow
def test_envcheck_leaves_a_third_of_a_configmap(sent: bytes) -> None:
    """The API server takes a MiB: there is room for what is to come.  Nothing but the sources decides the bytes."""
    with tarfile.open(fileobj=io.BytesIO(sent), mode="r:xz") as archive:
        entries = archive.getmembers()

    assert len(sent) + len(package.kit().board) < package.LIMIT <= CONFIGMAP * 2 / 3
    assert {(entry.mtime, entry.mode, entry.uid, entry.uname) for entry in entries} == {(0, 0o644, 0, "")}
    assert [entry.name for entry in entries] == sorted(entry.name for entry in entries)


def walked(machine: str, unpacked: Path, folder: Path, first: str = "") -> None:
    """All gates, to the end, with nothing but the standard library beside what was sent."""
    with session.written(machine_file.load(machine, None), folder / "root"):
        pass
    env = {"PATH": "/usr/bin:/bin", "ENVCHECK_SYSROOT": str(folder / "root"), "ENVCHECK_HOME": str(folder / "home")}
    jobs = json.dumps(MACHINES[machine])
    argv = [sys.executable, "-I", "-S", "-B", "-c", PROGRAM.format(first=first), str(unpacked), jobs]
    done = subprocess.run(argv, env=env, cwd=folder, capture_output=True, text=True, timeout=240)
    codes = [line for line in done.stdout.splitlines() if line.startswith("code ")]

    assert codes == ["code 1"] * len(MACHINES[machine]), done.stderr  # 1: no gate.environment, and no crash
    assert done.stdout.count("gate.devices") == len(MACHINES[machine])


@pytest.mark.slow
@pytest.mark.parametrize("machine", MACHINES)
def test_gates_need_nothing_that_was_left_out(machine: str, unpacked: Path, tmp_path: Path) -> None:
    """In an image without any package the gates of each vendor's machine are walked to the end."""
    walked(machine, unpacked, tmp_path)


@pytest.mark.slow
def test_gates_where_python_reads_no_toml(unpacked: Path, tmp_path: Path) -> None:
    """What is read by Python's own library from 3.11 on is read by what was sent."""
    walked("bi-v150x8", unpacked, tmp_path, OLDEST)


def names(folder: Path) -> Iterator[str]:
    return (path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_what_is_left_out_is_there(unpacked: Path) -> None:
    """Each name of the lists is a file or folder of the sources: one that was moved would travel again unseen."""
    roots = {library: package._place(library).parent for library in package.LIBRARIES}
    listed = [*package.WITHOUT, *(f"{folder}/{name}" for folder, every in package.ONLY.items() for name in every)]

    assert [name for name in listed if not (roots.get(name.partition("/")[0], package.ROOT) / name).exists()] == []
    assert {name for name in names(unpacked) if not package.wanted(name)} == set()


def test_sources_keep_their_lines() -> None:
    """Without docstrings a source does the same, and each statement stands where it stood."""
    source = b'''"""Kept."""
def f(x):
    """Two
    lines."""; y = "\xc3\xa9"
    return x + y  # a comment

class C:
    "One."

def g(): "On the line of its def."
'''
    found = package.bare(source)
    before, after = ast.parse(source), ast.parse(found)

    assert b"Two" not in found and b"One." not in found and b"Kept" in found
    assert found.count(b"\n") == source.count(b"\n")
    assert [type(n) for n in ast.walk(before)] == [type(n) for n in ast.walk(after)]
    assert [n.lineno for n in ast.walk(before) if isinstance(n, ast.Return)] == [5]
    assert [n.lineno for n in ast.walk(after) if isinstance(n, ast.Return)] == [5]
