"""What is sent to a node to run a command of envcheck there: it unpacks what travelled, runs it, and relays its lines.

This text is for every Python from 3.10 on, without any package.  The other side talks over standard input: the
parcels that are wanted, then "go"; each "stop" is a Ctrl-C there, and so is the end of the input, however it came.
"""

from __future__ import annotations

import base64
import json
import shlex
from collections.abc import Sequence

from envcheck.payload.content import Payload
from envcheck.payload.remote_collector import MARK

# Seconds that a command has after a lost connection to end by itself: a training writes a checkpoint meanwhile.
GRACE_S = 900
PYTHONS = "python3 python3.14 python3.13 python3.12 python3.11 python3.10"
LUGGAGE = "luggage"
Word = str | tuple[str]  # a path in the luggage is a tuple


def command(parcels: dict[str, Payload], words: Sequence[Word], forget: bool = False) -> str:
    """For any login shell, as carrying.command; `words` are those of the envcheck command."""
    asked = {
        "mark": MARK,
        "parcels": [[name, one.digest, len(one.data)] for name, one in parcels.items()],
        "words": [word if isinstance(word, str) else list(word) for word in words],
        "grace_s": GRACE_S,
        "forget": forget,
    }
    enough = _doubled("import sys; sys.exit(sys.version_info < (3, 10))")
    program = f'import base64;exec(base64.b64decode("{_base64(SITTER)}"))'
    script = (
        f"for p in {PYTHONS}; do $p -I -S -c {enough} 2>/dev/null && "
        f"exec $p -I -c {_doubled(program)} {_base64(json.dumps(asked))}; done; echo; echo {MARK} no-new-python"
    )
    return f"exec /bin/sh -c {shlex.quote(script)}"


def _doubled(text: str) -> str:
    return '"' + text.replace('"', '\\"') + '"'


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


# The command itself, in a Python of its own: our psutil where this Python loads it, else the node's.
START = """
import sys
whole = sys.argv.pop(1)
native = whole + "/native"
sys.path[:0] = [native, whole]
try:
    import psutil
except ImportError:
    sys.path.remove(native)
    for name in [name for name in sys.modules if name.partition(".")[0] == "psutil"]:
        del sys.modules[name]
    try:
        import psutil
    except ImportError:
        sys.exit("envcheck: there is no psutil that this Python loads\\n  next: install python3-psutil")
try:
    import tomllib
except ImportError:
    try:
        import tomli
    except ImportError:
        from pip._vendor import tomli
        sys.modules["tomli"] = tomli
sys.argv[0] = "envcheck"
from envcheck.cli.main import entry
entry()
"""

SITTER = (
    f"START = {START!r}"
    + '''
import base64, contextlib, fcntl, hashlib, io, json, os, shutil, signal, subprocess, sys, tempfile, threading, time
import zipfile

asked = json.loads(base64.b64decode(sys.argv[1]))
mark = asked["mark"].encode()
one_at_a_time = threading.Lock()
LINE, DAY_S = 65536, 86400


def tell(*words):
    """A marked line; where nobody reads any more the work goes on to its end all the same."""
    with one_at_a_time, contextlib.suppress(OSError, ValueError):
        sys.stdout.buffer.write(b"\\n" + b" ".join((mark,) + words) + b"\\n")
        sys.stdout.buffer.flush()


def give_up(word, why=""):
    tell(word.encode(), str(why).encode("utf-8", "replace")[:200])
    sys.exit(0)


def unpacked(folder, name, data, digest):
    """Whole or not at all: several nodes may share one home."""
    os.makedirs(folder, mode=0o700, exist_ok=True)
    part = tempfile.mkdtemp(dir=folder)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            archive.extractall(part)
        with open(os.path.join(part, ".digest"), "w") as file:
            file.write(digest)
        place = os.path.join(folder, name)
        if not held(place, digest):
            shutil.rmtree(place, ignore_errors=True)
        try:
            os.rename(part, place)
        except OSError:
            if not held(place, digest):
                raise
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return place


def held(place, digest):
    try:
        with open(os.path.join(place, ".digest")) as file:
            return file.read(100) == digest
    except OSError:
        return False


def swept(folder, kind, name):
    """What other versions left here, a day later, unless a command still runs from it."""
    for other in os.listdir(folder):
        path = os.path.join(folder, other)
        with contextlib.suppress(OSError):
            if other.startswith("aboard-" + kind) and other != name and os.path.getmtime(path) < time.time() - DAY_S:
                gone(path)


def gone(place):
    with contextlib.suppress(OSError), open(os.path.join(place, ".digest")) as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(place, ignore_errors=True)


def stored(kind, digest, size):
    """(place, whether it is for this time alone)."""
    data = sys.stdin.buffer.read(size)
    if hashlib.sha256(data).hexdigest() != digest:
        give_up("damaged")
    name = "aboard-%s-%s" % (kind, digest[:16])
    for folder in (cache, tempfile.gettempdir(), "/dev/shm"):
        try:
            if folder == cache:
                place = unpacked(cache, name, data, digest)
                swept(cache, kind, name)
                return place, False
            return unpacked(tempfile.mkdtemp(prefix="envcheck-", dir=folder), name, data, digest), True
        except OSError as err:
            why = err
    give_up("no-place", why)


def relay(stream, word):
    for line in iter(lambda: stream.readline(LINE), b""):
        tell(word, line.rstrip(b"\\n"))


def hear(child):
    """What the other side says; its silence for ever is a Ctrl-C, too, with less patience."""
    while line := sys.stdin.buffer.readline(100):
        if line == b"stop\\n":
            interrupt(child)
    interrupt(child)
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(asked["grace_s"])
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(OSError):
            os.killpg(child.pid, number)
        time.sleep(20)


def interrupt(child):
    with contextlib.suppress(OSError):
        child.send_signal(signal.SIGINT)


cache = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache"), "envcheck")
places, once = {}, []
for kind, digest, size in asked["parcels"]:
    place = os.path.join(cache, "aboard-%s-%s" % (kind, digest[:16]))
    if held(place, digest):
        places[kind] = place
tell(b"want", *(kind.encode() for kind, _, _ in asked["parcels"] if kind not in places))
for kind, digest, size in asked["parcels"]:
    if kind not in places:
        places[kind], brief = stored(kind, digest, size)
        if brief:
            once.append(os.path.dirname(places[kind]))
if sys.stdin.buffer.readline(100) != b"go\\n":
    give_up("not-begun")
locks = [open(os.path.join(place, ".digest")) for place in places.values()]
for lock in locks:
    fcntl.flock(lock, fcntl.LOCK_SH)  # the command and its children have it, too
words = [word if isinstance(word, str) else os.path.join(places["luggage"], *word) for word in asked["words"]]
child = subprocess.Popen(
    [sys.executable, "-I", "-c", START, places["whole"], *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
    stderr=subprocess.PIPE, start_new_session=True, pass_fds=[lock.fileno() for lock in locks],
    env={**os.environ, "ENVCHECK_LANG": "en"},  # who asked says it in a language of his own
)
tell(b"begun")
relays = [threading.Thread(target=relay, args=pair) for pair in ((child.stdout, b"out"), (child.stderr, b"err"))]
threading.Thread(target=hear, args=(child,), daemon=True).start()
for one in relays:
    one.start()
child.wait()
for one in relays:
    one.join(5)
for lock in locks:
    lock.close()
for place in once:
    shutil.rmtree(place, ignore_errors=True)
if asked["forget"]:
    with contextlib.suppress(OSError):
        for other in os.listdir(cache):
            if other.startswith("aboard-"):
                gone(os.path.join(cache, other))
            elif other.startswith("probe-"):
                os.unlink(os.path.join(cache, other))
        os.rmdir(cache)
tell(b"exit", str(child.returncode).encode())
os._exit(0)
'''
)
