"""An uncaught error of a launcher that stays alive, as its log shows it; pure.

Python prints the same words for an error that was handled (traceback.print_exc).  What tells them apart is where the
frames begin: those of an uncaught one begin where the program does, in runpy for `python -m MODULE`, else in the
command that pip made, which handles nothing.  A script's own first frame may stand in a `try`, so it tells nothing.
Seen: the main thread of paddle.distributed.launch fails on a port that is in use; the thread that keeps its keys stays.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import PurePosixPath

HEAD = "Traceback (most recent call last):"
_FRAME = re.compile(r'  File "(?P<file>[^"]+)", line \d+, in (?P<name>.+)')
_ERROR = re.compile(r"[A-Za-z_][\w.]*(?:: .*)?")


def uncaught(log: Sequence[str], argv: Sequence[str]) -> tuple[str, ...]:
    """The traceback, if one of the program's own main thread ends this log; else ()."""
    heads = [at for at, line in enumerate(log) if line == HEAD]
    if not heads or not _ERROR.fullmatch(log[-1]):
        return ()
    told = tuple(log[heads[-1] :])
    inner = told[1:-1]
    frames = [(m["file"], m["name"]) for m in map(_FRAME.fullmatch, inner) if m]
    whole = bool(frames) and all(line.startswith("  ") for line in inner)
    return told if whole and _of_main(frames, argv) else ()


def _of_main(frames: Sequence[tuple[str, str]], argv: Sequence[str]) -> bool:
    file, name = frames[0]
    if name == "_run_module_as_main":
        first = next((file for file, name in frames if name == "<module>"), "")
        return any(_is_module(first, word) for before, word in pairwise(argv) if before == "-m")
    command = PurePosixPath(file)
    return name == "<module>" and not command.suffix and command.name in {PurePosixPath(w).name for w in argv[:2]}


def _is_module(file: str, name: str) -> bool:
    place = "/" + name.replace(".", "/")
    return file.endswith((f"{place}.py", f"{place}/__main__.py"))
