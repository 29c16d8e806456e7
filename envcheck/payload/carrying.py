"""The one file that travels to a node, and the command that runs it there; content-hashed, so that it travels once.

The file is a zip that Python imports from: our probes and what they import, for Python 3.8.
"""

from __future__ import annotations

import ast
import base64
import importlib.util
import json
import shlex
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from envcheck.core.model import Question
from envcheck.payload import cache as kept
from envcheck.payload import lighter, older
from envcheck.payload.content import ROOT, Payload, pack_zip
from envcheck.payload.remote_collector import MARK
from envcheck.vendors import VENDORS

# Imported while it runs, by reading: only cards with follow-ups need their parser on the node.
LATE = tuple(v.parser for v in VENDORS.values() if v.per_device and v.package.startswith("envcheck."))
LIBRARIES = {"packaging": ("requirements", "version")}  # pure Python, for probes/host/requirements.py
START = "envcheck.payload.remote_collector"


@cache
def parcel() -> Payload:
    """Reproducible: whoever has the same envcheck sends the same bytes."""
    data = kept.through((ROOT / "envcheck", ROOT / "probes", *_places(LIBRARIES)), packed)
    return Payload.of(data)


def packed() -> bytes:
    return pack_zip((name, text.encode()) for name, text in _files().items())


def command(device: str, deadline_s: float, more: Iterable[Question] = (), forget: bool = False) -> str:
    """For any login shell: one line in single quotes, without a character that csh or fish reads otherwise."""
    sent = parcel()
    asked = {
        "mark": MARK,
        "device": device,
        "deadline_s": max(1, round(deadline_s)),
        "more": [[q.verb, list(q.what), q.timeout_s] for q in more],
        "forget": forget,
        "digest": sent.digest,
        "size": len(sent.data),
    }
    program = f'import base64;exec(base64.b64decode("{_base64(BOARDING)}"))'
    script = (
        f"command -v python3 >/dev/null 2>&1 || {{ echo; echo {MARK} no-python; exit 0; }}; "
        f"exec python3 -I -S -c {_doubled(program)} {_base64(json.dumps(asked))}"
    )
    return f"exec /bin/sh -c {shlex.quote(script)}"


def _doubled(text: str) -> str:
    """In double quotes: single ones are around the whole."""
    return '"' + text.replace('"', '\\"') + '"'


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _files() -> dict[str, str]:
    files = {_name(module): _travelling(module) for module in _reached([START, *LATE])}
    files["psutil.py"] = _travelling("envcheck.payload.plain_psutil")
    files.update(_of_libraries())
    files |= {f"{by.MODULE}.py": by.HELPERS for by in (older, lighter)}
    for module in (v.parser for v in VENDORS.values() if v.parser and v.package.startswith("envcheck.")):  # by name
        files.setdefault(_name(module), "")
        package = module.rpartition(".")[0]
        files.setdefault(_name(package), _travelling(package))
    return files


def _travelling(module: str) -> str:
    return older.written(lighter.changed(older.changed(ast.parse(_source(module)))))


def _places(libraries: Iterable[str]) -> Iterator[Path]:
    """Where they are installed here."""
    for name in libraries:
        found = importlib.util.find_spec(name)
        if found and found.origin:
            yield Path(found.origin).parent


def _of_libraries() -> dict[str, str]:
    """Those of their modules that are reached from the ones asked for."""
    files: dict[str, str] = {}
    for folder in _places(LIBRARIES):
        waiting = ["__init__", *LIBRARIES[folder.name]]
        while waiting:
            path = folder / f"{waiting.pop()}.py"
            if path.is_file() and f"{folder.name}/{path.name}" not in files:
                text = path.read_text(encoding="utf-8")
                files[f"{folder.name}/{path.name}"] = older.rewritten(text)
                waiting += _beside(text)
    return files


def _beside(text: str) -> Iterator[str]:
    """Modules of its own package that a module names."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.level:
            yield from (word for word in (node.module, *(alias.name for alias in node.names)) if word)


def _reached(modules: Iterable[str]) -> Iterator[str]:
    """These and what they import when they are loaded, of our own packages; and the packages that they lie in."""
    known: set[str] = set()
    waiting = list(modules)
    while waiting:
        module = waiting.pop()
        if module in known or not _path(module).is_file():
            continue
        known.add(module)
        waiting += [module.rpartition(".")[0], *_imported(module)]
    return iter(known)


def _imported(module: str) -> Iterator[str]:
    for node in ast.parse(_source(module)).body:
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def _path(module: str) -> Path:
    plain = ROOT.joinpath(*module.split("."))
    return plain / "__init__.py" if plain.is_dir() else plain.with_suffix(".py")


def _name(module: str) -> str:
    return str(_path(module).relative_to(ROOT))


def _source(module: str) -> str:
    return _path(module).read_text(encoding="utf-8")


# For every python3: it may be too old for the rest.  What it keeps is compiled, which takes longer than what it does.
BOARDING = '''
import base64, hashlib, json, marshal, os, sys
from importlib.machinery import ModuleSpec

asked = json.loads(base64.b64decode(sys.argv[1]).decode())
LIMIT = 16 << 20


def tell(*words):
    sys.stdout.write("\\n" + " ".join((asked["mark"],) + words) + "\\n")
    sys.stdout.flush()


class Aboard:
    """Imports what travelled: name -> (whether it is a package, its code)."""

    def __init__(self, modules):
        self.modules = modules

    def find_spec(self, name, path=None, target=None):
        if name in self.modules:
            return ModuleSpec(name, self, is_package=self.modules[name][0])

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        exec(marshal.loads(self.modules[module.__name__][1]), module.__dict__)


def kept(path):
    """What was compiled of this very file by this very Python, if nobody else could write there since; else None."""
    try:
        with open(path, "rb") as file:
            about, data = os.fstat(file.fileno()), file.read(LIMIT)
    except OSError:
        return None
    private = about.st_uid == os.geteuid() and not about.st_mode & 0o022
    return marshal.loads(data[64:]) if private and data[:64] == summed(data[64:]) else None


def summed(data):
    return hashlib.sha256((asked["digest"] + python).encode() + data).hexdigest().encode()


def compiled(data):
    import io, zipfile

    modules = {}
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for name in archive.namelist():
            words = name[:-3].split("/")
            package = words[-1] == "__init__"
            code = compile(archive.read(name), "probe/" + name, "exec", 0, True, 2)
            modules[".".join(words[:-1] if package else words)] = (package, marshal.dumps(code))
    return modules


def written(folder, name, make):
    """Whole or not at all, since several nodes may share one home."""
    import tempfile

    os.makedirs(folder, mode=0o700, exist_ok=True)
    handle, part = tempfile.mkstemp(prefix="probe-part-", dir=folder)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(make())
        os.replace(part, os.path.join(folder, name))
    except OSError:
        os.unlink(part)
        raise
    swept(folder, name)
    return os.path.join(folder, name)


def swept(folder, name):
    """Of other versions, and of writers that were killed, after a day; another node may take it away first."""
    import time

    for other in os.listdir(folder):
        path, same = os.path.join(folder, other), other.startswith(name[:22])
        try:
            if other.startswith("probe-") and not same and os.path.getmtime(path) < time.time() - 86400:
                os.unlink(path)
        except OSError:
            pass


def forgotten(folder):
    """All that is kept here, also of other verbs and versions; but what a command runs from just now."""
    import fcntl, shutil

    for other in os.listdir(folder):
        path = os.path.join(folder, other)
        try:
            if other.startswith("probe-"):
                os.unlink(path)
            elif other.startswith(("pyz-", "attachments-")):
                with open(os.path.join(path, ".sums")) as file:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(path, ignore_errors=True)
        except OSError:
            pass
    os.rmdir(folder)


def stored(data):
    """Compiled, for later times, too; where the home is full or read-only as it is, in a temporary folder."""
    modules = {}

    def made():
        modules.update(compiled(data))
        text = marshal.dumps(modules)
        return summed(text) + text

    try:
        written(folder, name, made)
        return modules, None
    except OSError:
        import tempfile
    for place in (tempfile.gettempdir, lambda: "/dev/shm"):
        try:
            return {}, written(tempfile.mkdtemp(prefix="envcheck-", dir=place()), "probe.zip", lambda: data)
        except OSError as err:
            why = err
    tell("no-room", str(why))
    sys.exit(0)


if sys.version_info < (3, 8):
    tell("old-python", "%d.%d" % sys.version_info[:2])
    sys.exit(0)
cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
python = "%s-%x" % (sys.implementation.cache_tag, sys.hexversion)
name = "probe-%s-%s" % (asked["digest"][:16], python)
folder = os.path.join(cache, "envcheck")
modules, once = kept(os.path.join(folder, name)), None
if modules:
    tell("have")
else:
    tell("want")
    data = sys.stdin.buffer.read(asked["size"])
    if hashlib.sha256(data).hexdigest() != asked["digest"]:
        tell("damaged")
        sys.exit(0)
    modules, once = stored(data)
sys.meta_path.insert(0, Aboard(modules))
if once:
    sys.path.insert(0, once)
try:
    from envcheck.payload import remote_collector

    code = remote_collector.main(asked)
finally:
    try:
        if once:
            os.unlink(once)
            os.rmdir(os.path.dirname(once))
        if asked["forget"]:
            forgotten(folder)
    except OSError:
        pass
sys.stdout.flush()
os._exit(code)  # taking down what was imported costs 13 ms of 250
'''
