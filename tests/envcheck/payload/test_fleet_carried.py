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
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from envcheck.collect import facts, machine, snapshot
from envcheck.core.model import Answer
from envcheck.payload import cache as kept
from envcheck.payload import carrying, lighter, older, plain_psutil
from envcheck.payload.remote_collector import MARK
from envcheck.simulate import machine_file as described
from envcheck.simulate import session
from probes.host import collectors
from tests.envcheck.checks.doctor_helpers import MACHINES

pytestmark = pytest.mark.slow

TRAVELS = {"envcheck", "probes", "psutil", "packaging", older.MODULE, lighter.MODULE}


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


def flipped(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))


def strangers(path: Path) -> None:
    if os.geteuid():
        pytest.skip("only root gives a file away")
    os.chown(path, 65534, 65534)


@pytest.mark.parametrize(
    "change", (flipped, strangers, lambda path: path.chmod(0o666)), ids=("flipped", "another's", "open to all")
)
def test_what_is_kept_is_ours(change: Callable[[Path], None], tmp_path: Path) -> None:
    """It is run again only as it was kept, and where nobody else could write to it; else it is asked for anew."""
    first = run(tmp_path)
    (place,) = (tmp_path / "cache" / "envcheck").iterdir()
    again = run(tmp_path)
    change(place)
    later = run(tmp_path)

    assert [word.encode() in done.stdout for done in (first, again, later) for word in (f"{MARK} want",)] == [1, 0, 1]
    assert place.stat().st_mode & 0o777 == 0o600
    assert place.parent.stat().st_mode & 0o777 == 0o700
    assert answered(later).keys() == answered(again).keys()


def test_what_others_left_goes(tmp_path: Path) -> None:
    """A day later; what cannot be taken away does not keep this file from being kept."""
    cache = tmp_path / "cache" / "envcheck"
    (cache / "probe-folder").mkdir(parents=True)
    for name in ("probe-0123.zip", "probe-part-x", "parcel-of-ours"):
        (cache / name).touch()
    for path in cache.iterdir():
        os.utime(path, (1, 1))
    (cache / "probe-new").touch()
    run(tmp_path)
    done = run(tmp_path)

    assert f"{MARK} have".encode() in done.stdout
    left = {path.name for path in cache.iterdir() if "cpython" not in path.name}
    assert left == {"probe-folder", "parcel-of-ours", "probe-new"}


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
    assert collectors.host().keys()
    assert collectors.network()["interfaces"]["lo"]["addresses"]


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


LIGHTER = '''"""Words."""
from __future__ import annotations
import re
from dataclasses import dataclass, field, fields, replace
NUMBER = re.compile("(x)[0-9]+", re.IGNORECASE)
@dataclass(frozen=True)
class Card:
    name: str
    size: int | None = None
    seen: list[str] = field(default_factory=list)
    @property
    def word(self) -> str:
        return NUMBER.sub("y", self.name)
@dataclass(frozen=True)
class Key:
    name: str
@dataclass(frozen=True)
class Longer(Key):
    more: int = 3
def told() -> list[object]:
    one, two = Card("X12", 1), Card(name="X12", size=1)
    one.seen.append("a")
    refused = []
    for wrong in (lambda: Card(), lambda: Card("a", 1, [], 2), lambda: Card("a", other=1)):
        try:
            wrong()
        except TypeError:
            refused.append(True)
    return [
        one == two, one == replace(two, seen=["a"]), two.seen, two.word, repr(two), one != "X12", Card("z").size,
        [(f.name, f.type) for f in fields(Card)], {Key("a"): 1}[Key("a")], Longer("b").__dict__, refused,
        Longer("b") == Key("b"), NUMBER.pattern, bool(NUMBER.match("none")), NUMBER.findall("x1 X2"),
    ]
'''


def test_lighter_means_the_same() -> None:
    """Dataclasses and patterns as they travel behave as Python's own, and neither dataclasses nor re is asked early."""
    found = []
    light = older.written(lighter.changed(ast.parse(LIGHTER)))
    for text in (LIGHTER, light):
        space: dict[str, object] = {"__name__": "lighter_test"}
        modules = {lighter.MODULE: type(sys)(lighter.MODULE), "lighter_test": type(sys)("lighter_test")}
        exec(lighter.HELPERS, modules[lighter.MODULE].__dict__)
        with pytest.MonkeyPatch.context() as patch:
            for name, module in modules.items():
                patch.setitem(sys.modules, name, module)
            exec(compile(text, "lighter", "exec"), space)
        found.append(space["told"]())  # type: ignore[operator]

    assert found[0] == found[1]
    assert "dataclasses" not in light
    assert "re.compile" not in light
