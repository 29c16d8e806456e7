"""Whether the loader can load a vendor's libraries, tried in a child process with a deadline: loading may run code.

libraries  {name: {loads: true | false | null, error: the loader's message, path: set if it was only found by path}}
           null: the child crashed or hung while it was loading this library
"""

import glob
import json
import sys
from collections.abc import Callable, Iterable
from typing import Any

DEADLINE_S = 8.0
# By name first, as programs do; then by its documented path: if that works, only the library path is incomplete.
_CHILD = """
import ctypes, json, os, sys
for name, path in json.loads(sys.argv[1]):
    print(json.dumps([name]), flush=True)
    result = {"loads": False, "error": "", "path": None}
    for place in (name, path):
        try:
            if place and (place == name or os.path.exists(place)):
                ctypes.CDLL(place)
                result = {"loads": True, "error": result["error"], "path": None if place == name else place}
                break
        except OSError as err:
            result["error"] = result["error"] or str(err)[:300]
    print(json.dumps([name, result]), flush=True)
"""


def collect_libraries(vendors: "Iterable[Any]", run: "Callable[..., Any]") -> "dict[str, Any]":
    """Return the load results for the vendors whose devices or toolkit are present."""
    here = [v for v in vendors if v.libraries and (_has_match(v.node_pattern) or _has_match(v.toolkit_folder))]
    wanted = [pair for vendor in here for pair in vendor.libraries]
    return _try_loading(wanted, run) if wanted else {}


def _has_match(pattern: str) -> bool:
    return bool(pattern and glob.glob(pattern))


def _try_loading(wanted: "list[tuple[str, str]]", run: "Callable[..., Any]") -> "dict[str, Any]":
    done = run((sys.executable, "-c", _CHILD, json.dumps(wanted)), DEADLINE_S)
    lost = {"loads": None, "error": "timed out while loading" if done.hung else "the loader crashed", "path": None}
    return {**{name: lost for name, _ in wanted if f'["{name}"]' in done.out}, **_parse_child_output(done.out)}


def _parse_child_output(out: str) -> "dict[str, Any]":
    """Return the results; lines that a library printed itself are ignored."""
    found = {}  # type: dict[str, Any]
    for line in out.splitlines():
        try:
            result = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(result, list) and len(result) == 2 and isinstance(result[1], dict):
            found[str(result[0])] = result[1]
    return found
