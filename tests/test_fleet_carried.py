"""The one file that travels to the nodes: for Python 3.8 without any package; it says what envcheck itself would."""

from __future__ import annotations

import ast
import base64
import io
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import zipfile
import zlib
from pathlib import Path

import psutil
import pytest
from doctor_helpers import MACHINES

from envcheck import facts, machine, snapshot
from envcheck.fleet import carrying, kept, older, plain_psutil
from envcheck.fleet.onboard import MARK
from envcheck.model import Answer
from envcheck.simulation import machine_file as described
from envcheck.simulation import session
from probes import host

TRAVELS = {"envcheck", "probes", "psutil", "packaging", older.MODULE}


def oldest() -> str:
    """The oldest Python from 3.8 on that is here: pyenv's, the system's, else our own."""
    shim = shutil.which("pyenv")
    roots = [Path(r) for r in (os.environ.get("PYENV_ROOT"), shim and Path(shim).resolve().parents[1]) if r]
    found = [path for root in roots for path in root.glob("versions/3.[89]*/bin/python3")]
    named = [shutil.which(f"python3.{minor}") for minor in (8, 9)]
    return min((str(path) for path in found), default=None) or next(
        (name for name in named if name and "shims" not in name), sys.executable
    )


def run(folder: Path, *more: str, python: str | None = None, **variables: str) -> subprocess.CompletedProcess[bytes]:
    """The command as a login shell would run it, with the file on standard input."""
    (folder / "bin").mkdir(exist_ok=True)
    link = folder / "bin" / "python3"
    link.unlink(missing_ok=True)
    link.symlink_to(python or oldest())
    env = {
        **os.environ,
        "PATH": f"{folder / 'bin'}:/usr/bin:/bin",
        "XDG_CACHE_HOME": str(folder / "cache"),
        **variables,
    }
    argv = [*(more or ("sh",)), "-c", carrying.command("auto", 60)]
    return subprocess.run(argv, input=carrying.parcel().data, env=env, capture_output=True, timeout=120, check=False)


def answered(done: subprocess.CompletedProcess[bytes]) -> dict[str, Answer]:
    parts = re.findall(rf"^{MARK} data (\S+)$".encode(), done.stdout, re.MULTILINE)
    assert parts, done.stderr.decode()
    return snapshot.parse(zlib.decompress(b"".join(map(base64.b64decode, parts))))[0]


def carried() -> dict[str, str]:
    with zipfile.ZipFile(io.BytesIO(carrying.parcel().data)) as archive:
        return {name: archive.read(name).decode() for name in archive.namelist()}


def test_nothing_but_the_standard_library() -> None:
    """Every file is Python 3.8 to its parser, and imports, at any place that runs, nothing that must be installed."""
    checkers = {"typing_extensions"}  # packaging names it for type checkers alone
    for name, text in carried().items():
        tree = ast.parse(text, name, feature_version=(3, 8))
        modules = [a.name for node in ast.walk(tree) if isinstance(node, ast.Import) for a in node.names]
        modules += [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and not node.level]

        assert {module.split(".")[0] for module in modules} - TRAVELS - checkers <= set(sys.stdlib_module_names), name


def test_the_same_file_from_the_same_sources() -> None:
    """Two people with one envcheck send the same bytes; it is small."""
    first = carrying.packed()

    assert carrying.packed() == first
    assert len(first) < 250_000


def test_it_is_kept_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Made once for the same sources; made again when one changes, or when what was kept is damaged."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "sources").mkdir()
    (tmp_path / "sources" / "a.py").write_text("1")
    made: list[int] = []

    def make() -> bytes:
        made.append(1)
        return b"data %d" % len(made)

    assert [kept.through([tmp_path / "sources"], make) for _ in range(2)] == [b"data 1"] * 2
    (tmp_path / "sources" / "a.py").write_text("12")
    assert [kept.through([tmp_path / "sources"], make) for _ in range(2)] == [b"data 2"] * 2
    (place,) = (tmp_path / "cache" / "envcheck").iterdir()
    place.write_bytes(place.read_bytes()[:-1])
    assert kept.through([tmp_path / "sources"], make) == b"data 3"


@pytest.mark.parametrize("name", MACHINES)
def test_it_says_what_envcheck_says(name: str, tmp_path: Path) -> None:
    """On each simulated machine the oldest Python's answers are those of envcheck itself, word for word."""
    with session.written(described.load(name, None), tmp_path / "machine") as folder:
        own = facts.ask(machine.simulated(folder))
        done = run(tmp_path, ENVCHECK_SYSROOT=str(folder))

    said = answered(done)
    assert {key: (a.outcome, a.out, a.err, a.status) for key, a in said.items()} == {
        key: (a.outcome, a.out, a.err, a.status) for key, a in own.items()
    }


def test_it_collects_by_itself(tmp_path: Path) -> None:
    """Of this very machine all collectors answer under the oldest Python, without psutil."""
    said = answered(run(tmp_path))

    assert [a.err for key, a in said.items() if key.startswith("ask ") and not a.ok] == []
    assert json.loads(said["ask host"].out)["memory_total_bytes"] == psutil.virtual_memory().total


def test_requirements_are_judged_there(tmp_path: Path) -> None:
    """Where a framework is installed, which lacks what it asks for, the node itself can say so."""
    info = (
        tmp_path / "envcheck" / "environments" / "own" / "lib" / "python3.8" / "site-packages" / "torch-2.5.1.dist-info"
    )
    info.mkdir(parents=True)
    (tmp_path / "envcheck" / "environments" / "own" / "bin").mkdir()
    (info / "METADATA").write_text("Name: torch\nRequires-Dist: sympy==1.13.1; python_version >= '3.8'\n\n")
    said = json.loads(answered(run(tmp_path, XDG_DATA_HOME=str(tmp_path)))["ask packages"].out)

    assert said["environments"]["own"]["unmet"] == ["torch 2.5.1 wants sympy==1.13.1, none is there"]


@pytest.mark.parametrize("shell", ("sh", "bash", "dash", "busybox"))
def test_login_shells(shell: str, tmp_path: Path) -> None:
    """The command is one line that any of these takes."""
    if not shutil.which(shell):
        shell = "sh"
    done = run(tmp_path, *((shell, "sh") if shell == "busybox" else (shell,)))

    assert done.returncode == 0, done.stderr
    assert "\n" not in carrying.command("auto", 60)


def test_another_file_is_not_taken(tmp_path: Path) -> None:
    """Half a file is told as damaged; nothing of it is kept or run."""
    done = subprocess.run(
        ["sh", "-c", carrying.command("auto", 60)], input=carrying.parcel().data[:1000], capture_output=True,
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path)}, timeout=60, check=False,
    )  # fmt: skip

    assert done.stdout.split() == [MARK.encode(), b"want", MARK.encode(), b"damaged"]
    assert list(tmp_path.iterdir()) == []


def test_psutil_stands_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """What stands in for psutil tells of this machine what psutil tells."""
    kinds = (socket.AF_INET, socket.AF_INET6)
    real = {n: [a.address for a in listed if a.family in kinds] for n, listed in psutil.net_if_addrs().items()}
    own = {n: [a.address for a in listed] for n, listed in plain_psutil.net_if_addrs().items()}
    shared = real.keys() & own.keys()  # interfaces of other tests come and go
    disks = {part.mountpoint for part in psutil.disk_partitions()}

    assert "lo" in shared
    assert own["lo"] == real["lo"]
    assert {part.mountpoint for part in plain_psutil.disk_partitions()} >= {d for d in disks if d == "/"}
    assert plain_psutil.virtual_memory().total == psutil.virtual_memory().total
    assert plain_psutil.swap_memory() == (psutil.swap_memory().total, psutil.swap_memory().used)
    assert plain_psutil.net_if_stats()["lo"] == (psutil.net_if_stats()["lo"].isup, psutil.net_if_stats()["lo"].mtu)
    monkeypatch.setitem(sys.modules, "psutil", plain_psutil)
    assert host.host().keys()
    assert host.network()["interfaces"]["lo"]["addresses"]


OLDER = '''"""Words."""
from __future__ import annotations
from collections.abc import Callable, Mapping
Alias = Callable[[int], str] | None
Table = dict[str, tuple[int, ...]]
def joined(a: dict[str, int] | None, b: dict[str, int]) -> list[object]:
    pairs = list(zip(a or {}, b, strict=True))
    kept = a
    kept |= {"z": 26}
    bits = 1 | 2
    bits |= 4
    return [a | b, pairs, bits, "abc".removeprefix("a").removesuffix("c"), {1} | {2}]
'''


def test_older_means_the_same() -> None:
    """What newer Pythons write otherwise gives the same values after it was rewritten, changes in place included."""
    helpers: dict[str, object] = {}
    text = older.rewritten(OLDER)
    module = type(sys)(older.MODULE)
    exec(older.HELPERS, module.__dict__)
    sys.modules[older.MODULE] = module
    try:
        exec(compile(text, "older", "exec"), helpers)
    finally:
        del sys.modules[older.MODULE]
    plain: dict[str, object] = {}
    exec(compile(OLDER, "newer", "exec"), plain)
    results = [space["joined"]({"a": 1}, {"b": 2}) for space in (helpers, plain)]  # type: ignore[operator]

    assert results[0] == results[1]
    ast.parse(text, feature_version=(3, 8))
    assert "strict" not in text
