"""The collector for another host: its source, and the command that runs it there. No file is left on the host."""

from __future__ import annotations

import base64
import json
import shlex
import zlib
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from envcheck.collect import host
from envcheck.collect.host.collectors import VENDOR_FIELDS
from envcheck.core import portable
from envcheck.core.model import Question
from envcheck.vendors import VENDORS

MARK = "envcheck-fleet"
PACKAGES = ("envcheck", "envcheck.core", "envcheck.core.portable", "envcheck.collect", "envcheck.collect.host")
PYTHONS = ("python3", "/usr/libexec/platform-python")  # the second is the system Python of RHEL 8 and derivatives
OLDEST = (3, 6)


def render_command(size: int) -> str:
    """Return one line in single quotes for any login shell, without characters that csh or fish interpret.

    It runs the first `size` bytes of its standard input as a Python program.
    """
    program = f"import sys;exec(sys.stdin.buffer.read({size}))"
    tries = "".join(f'command -v {p} >/dev/null 2>&1 && exec {p} -I -S -c "{program}"; ' for p in PYTHONS)
    script = f"{tries}echo; echo {MARK} no-python"
    return f"exec /bin/sh -c {shlex.quote(script)}"


def render_program(deadline_s: float) -> bytes:
    """Return the program that the host runs; every Python 3 can parse its first lines."""
    asked = {"mark": MARK, "deadline_s": max(1, round(deadline_s)), "vendors": _describe_vendors()}
    return BOOT.format(
        mark=MARK, oldest=OLDEST, packages=PACKAGES, sources=_packed_sources(), asked=json.dumps(json.dumps(asked))
    ).encode()


def render_questions(questions: Iterable[Question]) -> bytes:
    """Return the questions as one line of JSON."""
    return (json.dumps([[q.verb, list(q.what), q.timeout_s] for q in questions]) + "\n").encode()


def collect_sources() -> dict[str, str]:
    """Return the source of each module by name."""
    folders = (host, portable)
    paths = {f"{each.__name__}.{path.stem}": path for each in folders for path in Path(each.__path__[0]).glob("*.py")}
    return {name: path.read_text("utf-8") for name, path in sorted(paths.items()) if not name.endswith("__init__")}


@cache
def _packed_sources() -> str:
    return base64.b64encode(zlib.compress(json.dumps(collect_sources()).encode(), 9)).decode()


def _describe_vendors() -> list[dict[str, object]]:
    return [{name: getattr(vendor, name) for name in VENDOR_FIELDS} for vendor in VENDORS.values()]


BOOT = """
import sys
if sys.version_info < {oldest}:
    sys.stdout.write("\\n{mark} old-python %d.%d\\n" % sys.version_info[:2])
    sys.exit(0)
import base64, json, zlib
from importlib.machinery import ModuleSpec

SOURCES = json.loads(zlib.decompress(base64.b64decode("{sources}")).decode())


class Importer:
    def find_spec(self, name, path=None, target=None):
        if name in SOURCES or name in {packages}:
            return ModuleSpec(name, self, is_package=name in {packages})

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        exec(compile(SOURCES.get(module.__name__, ""), module.__name__, "exec"), module.__dict__)


sys.meta_path.insert(0, Importer())
from envcheck.collect.host import serve
serve.main(json.loads({asked}))
"""
