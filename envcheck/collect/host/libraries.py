"""Whether the loader can load a vendor's libraries here, tried in a child with a deadline: a library may run code.

libraries  {name: {loads: true | false | null, error: the loader's words, path: where it was found when not by name}}
           null: the child ended or hung while it loaded this one
"""

import glob
import json
import sys
from collections.abc import Callable, Iterable
from typing import Any

DEADLINE_S = 8.0
# By name first, as programs do; by its documented place second: then only the path to it is missing.
_CHILD = """
import ctypes, json, os, sys
for name, path in json.loads(sys.argv[1]):
    print(json.dumps([name]), flush=True)
    said = {"loads": False, "error": "", "path": None}
    for place in (name, path):
        try:
            if place and (place == name or os.path.exists(place)):
                ctypes.CDLL(place)
                said = {"loads": True, "error": said["error"], "path": None if place == name else place}
                break
        except OSError as err:
            said["error"] = said["error"] or str(err)[:300]
    print(json.dumps([name, said]), flush=True)
"""


def libraries(vendors: "Iterable[Any]", run: "Callable[..., Any]") -> "dict[str, Any]":
    """Of the vendors whose cards, or toolkit, are here; none is loaded for nothing."""
    here = [v for v in vendors if v.libraries and (_any(v.node_pattern) or _any(v.toolkit_folder))]
    wanted = [pair for vendor in here for pair in vendor.libraries]
    return _tried(wanted, run) if wanted else {}


def _any(pattern: str) -> bool:
    return bool(pattern and glob.glob(pattern))


def _tried(wanted: "list[tuple[str, str]]", run: "Callable[..., Any]") -> "dict[str, Any]":
    done = run((sys.executable, "-c", _CHILD, json.dumps(wanted)), DEADLINE_S)
    lost = {"loads": None, "error": "no end while it was loaded" if done.hung else "the loader crashed", "path": None}
    return {**{name: lost for name, _ in wanted if f'["{name}"]' in done.out}, **_told(done.out)}


def _told(out: str) -> "dict[str, Any]":
    """The lines with two parts; what a library itself printed is none of ours."""
    found = {}  # type: dict[str, Any]
    for line in out.splitlines():
        try:
            said = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(said, list) and len(said) == 2 and isinstance(said[1], dict):
            found[str(said[0])] = said[1]
    return found
