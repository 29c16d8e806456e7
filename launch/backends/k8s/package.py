"""envcheck itself, packed for the init container: its image needs no more than Python 3.10.  Named by its content."""

from __future__ import annotations

import ast
import base64
import hashlib
import importlib.util
import io
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

from envcheck.payload import cache as kept

ROOT = Path(__file__).parents[3]
FOLDERS = ("envcheck", "probes", "installers", "launch")
LIBRARIES = ("click", "defusedxml", "packaging")  # pure Python, and all that the gates import besides psutil
# What no gate loads: other verbs, what only provisions, plans for people, reports as pages.  Modules and folders.
WITHOUT = (
    *(
        "envcheck/core/lint",
        "envcheck/lint",
        "envcheck/scripts",
        "envcheck/simulate",
        "envcheck/schemas",
        "envcheck/deep",
        "envcheck/core/language/zh",
    ),
    *(
        *(f"envcheck/cli/docs_{name}.py" for name in ("checks", "explain", "gates", "lint")),
        "envcheck/checks/known_issues.py",
        "envcheck/checks/known_issues.toml",
        "envcheck/cli/manual.py",
    ),
    *("envcheck/compat/solving.py", "envcheck/report/version_sets.py", "envcheck/report/templates"),
    *(
        f"envcheck/report/{name}.py"
        for name in ("page", "page_words", "page_words_zh", "bars", "tiles", "topology", "watch")
    ),
    *(f"envcheck/report/{name}.py" for name in ("markdown", "junit", "sarif", "prometheus")),
    *("installers/drivers", "installers/fixes", "installers/hosts", "installers/as_script.py", "installers/undo.py"),
    *(
        "launch/infer",
        "launch/backends/ssh",
        "launch/backends/node_findings.py",
        "launch/backends/node_requirements.py",
        "envcheck/explain/entries",
    ),
    *("envcheck/explain/codes.toml", "launch/runs/explain_run.py", "envcheck/explain/show.py"),
    "launch/catalogue/schedulers.py",
    *("launch/planner/output", "launch/planner/calibration.py", "launch/planner/sweep.py"),
    *("click/testing.py", "click/_winconsole.py", "defusedxml/lxml.py", "defusedxml/xmlrpc.py", "packaging/licenses"),
    *(f"packaging/{name}.py" for name in ("metadata", "pylock", "dependency_groups", "direct_url")),
)
# Parts of the vendors' folders that no gate loads, as patterns: a part may have modules of its own.
VENDOR_PARTS = ("codes.toml", "driver.toml", "explain.toml", "lint*.py", "scheduler.toml", "simulate*.py")
# Of these folders no more than that.
ONLY = {
    "envcheck/cli/commands": ("__init__.py", "train.py"),
    "envcheck/fleet": ("__init__.py", "argv.py"),
    "launch/backends/k8s": ("__init__.py",),  # the options of train
    "launch/backends/slurm": ("__init__.py",),
    "envcheck/payload": ("__init__.py", "plain_psutil.py"),
}
SPARE = "spare"  # a folder of what is used where the image has none of its own: psutil is compiled
TOML = ("tomli", "tomllib")  # one reader by two names, for Python 3.10, which has none: the first that is here
LIMIT = (1 << 20) * 2 // 3  # bytes: a ConfigMap holds a MiB, and a third is for what is to come; a test holds it


@dataclass(frozen=True)
class PodPackage:
    """`digest` is the sum of the packed file, which `board` checks before it unpacks."""

    digest: str
    base64: str
    board: str


@cache
def kit() -> PodPackage:
    data = kept.through([*(ROOT / folder for folder in FOLDERS), *map(_place, LIBRARIES)], packed, "kit-", "*")
    board = Path(__file__).with_name("init_unpack.py").read_text(encoding="utf-8")
    digest = hashlib.sha256(data + board.encode()).hexdigest()
    return PodPackage(digest, base64.b64encode(data).decode(), board)


def packed() -> bytes:
    """The same bytes of the same sources."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:xz") as archive:
        for name, path in sorted(_files()):
            data = bare(path.read_bytes()) if path.suffix == ".py" else path.read_bytes()
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), 0o644
            archive.addfile(entry, io.BytesIO(data))
    return file.getvalue()


def wanted(name: str) -> bool:
    """Whether a gate may load it."""
    folder, _, file = name.rpartition("/")
    if folder in ONLY:
        return file in ONLY[folder]
    if folder.startswith("envcheck/vendors/") and any(fnmatch(file, part) for part in VENDOR_PARTS):
        return False
    return not any(name == out or name.startswith(f"{out}/") for out in WITHOUT)


def bare(source: bytes) -> bytes:
    """Without docstrings, which are a fifth of it, but for its own, which a program may show as its help.

    Every line keeps its number, for a traceback.
    """
    lines = source.decode("utf-8").splitlines(keepends=True)
    for node in ast.walk(ast.parse(source)):
        match node:
            case (
                ast.ClassDef(body=[ast.Expr(value=ast.Constant(value=str())) as text, *_])
                | ast.FunctionDef(body=[ast.Expr(value=ast.Constant(value=str())) as text, *_])
            ) if not lines[text.lineno - 1][: text.col_offset].strip():
                end = text.end_lineno or text.lineno
                after = lines[end - 1].encode()[text.end_col_offset :].decode()
                lines[text.lineno - 1 : end] = [f'{" " * text.col_offset}""{after}', *["\n"] * (end - text.lineno)]
    return "".join(lines).encode()


def _files() -> Iterator[tuple[str, Path]]:
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*"):
            name = path.relative_to(ROOT).as_posix()
            if path.suffix in (".py", ".toml", ".txt") and wanted(name) and path.is_file():
                yield name, path
    for library in LIBRARIES:
        place = _place(library)
        for path in place.rglob("*.py"):
            if wanted(name := f"{library}/{path.relative_to(place).as_posix()}"):
                yield name, path
    yield f"{SPARE}/psutil.py", Path(__file__).with_name("spare.py")
    reader = next(_place(name) for name in TOML if importlib.util.find_spec(name))
    yield from ((f"{SPARE}/tomli/{path.name}", path) for path in reader.glob("*.py"))


def _place(library: str) -> Path:
    found = importlib.util.find_spec(library)
    assert found and found.origin
    return Path(found.origin).parent
