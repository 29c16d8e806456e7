"""Answers a question on this host: run a tool, read a file, list paths, call a collector."""

import glob
import json
import os
import shutil
from collections.abc import Callable, Sequence
from typing import Any

from envcheck.collect.host.collectors import COLLECTORS
from envcheck.core.portable.exit_status import NOT_FOUND

SYSROOT = "ENVCHECK_SYSROOT"  # set by `envcheck simulate`: a folder with bin/, root/ and ask/
READ_LIMIT = 1 << 20
ANSWERED, EMPTY, ABSENT, HUNG, FAILED = "answered", "empty", "absent", "hung", "failed"
UNSTARTED, FLOODED = "unstarted", "flooded"


class CollectorHost:
    """This host, or the simulated one in the folder `sysroot`: tools only from its bin/, files from its root/,
    collectors from its ask/NAME.json.

    `vendors` are records, or objects with the fields VENDOR_FIELDS; `run(argv, timeout_s)` runs a program.
    """

    def __init__(self, vendors: "Sequence[Any]", run: "Callable[..., Any]", sysroot: str = "") -> None:
        self.vendors, self.run, self.sysroot = vendors, run, sysroot

    def answer(self, verb: str, what: "Sequence[str]", timeout_s: float) -> "dict[str, Any]":
        """Return {outcome, out, err, status, elapsed_s}; errors are outcomes too."""
        if verb == "run":
            return self._run_tool(list(what), timeout_s)
        return {"read": self._read_path, "list": self._list_paths, "ask": self._ask_collector}[verb](what[0])

    def _run_tool(self, argv: "list[str]", timeout_s: float) -> "dict[str, Any]":
        if self.sysroot:
            found = shutil.which(argv[0], path=os.path.join(self.sysroot, "bin"))
            if not found:
                return _make_answer(ABSENT, err=f"{argv[0]}: not found", status=NOT_FOUND)
            argv = [found, *argv[1:]]
        done = self.run(argv, timeout_s)
        return _make_answer(_find_outcome(done), done.out, done.err, done.status, done.elapsed_s)

    def _read_path(self, path: str) -> "dict[str, Any]":
        return _read_file(os.path.join(self.sysroot, "root", path.lstrip("/")) if self.sysroot else path)

    def _list_paths(self, pattern: str) -> "dict[str, Any]":
        prefix = os.path.join(self.sysroot, "root") if self.sysroot else ""
        found = sorted(path[len(prefix) :] for path in glob.glob(prefix + pattern))
        return _make_answer(ANSWERED if found else EMPTY, "\n".join(found))

    def _ask_collector(self, name: str) -> "dict[str, Any]":
        if self.sysroot:
            return _read_file(os.path.join(self.sysroot, "ask", name + ".json"))
        try:
            return _make_answer(ANSWERED, json.dumps(COLLECTORS[name](self.vendors, self.run), sort_keys=True))
        except Exception as err:  # a failing collector is an answer: the doctor continues
            return _make_answer(FAILED, err=f"{name}: {type(err).__name__}: {err}")


def _find_outcome(done: "Any") -> str:
    ended = (done.absent, ABSENT), (done.hung, HUNG), (done.unstarted, UNSTARTED), (done.flooded, FLOODED)
    for happened, outcome in ended:
        if happened:
            return outcome
    return FAILED if done.status else ANSWERED if done.out.strip() or done.err.strip() else EMPTY


def _read_file(path: str) -> "dict[str, Any]":
    try:
        with open(path, "rb") as file:
            text = file.read(READ_LIMIT).decode("utf-8", "replace")
    except (FileNotFoundError, NotADirectoryError):
        return _make_answer(ABSENT, err="no such file")
    except OSError as err:
        return _make_answer(FAILED, err=err.strerror or str(err))
    return _make_answer(ANSWERED if text.strip() else EMPTY, text)


def _make_answer(
    outcome: str, out: str = "", err: str = "", status: "int | None" = None, elapsed_s: float = 0.0
) -> "dict[str, Any]":
    return {"outcome": outcome, "out": out, "err": err, "status": status, "elapsed_s": elapsed_s}
