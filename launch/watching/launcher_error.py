"""An uncaught error of a launcher that stays alive, as its log shows it; pure.

Python prints the same words for an error that was handled (traceback.print_exc).  What tells them apart is where the
frames begin: those of an uncaught one begin where the program does, in runpy for `python -m MODULE`, else in the
command that pip made, which handles nothing.  A script's own first frame may stand in a `try`: its source tells.
Seen: the main thread of paddle.distributed.launch fails on a port that is in use; the thread that keeps its keys stays.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import PurePosixPath

HEAD = "Traceback (most recent call last):"
_FRAME = re.compile(r'  File "(?P<file>[^"]+)", line (?P<line>\d{1,6}), in (?P<name>.+)')
_ERROR = re.compile(r"[A-Za-z_][\w.]*(?:: .*)?")
_PYTHON = re.compile(r"python[\d.]*")
Frame = tuple[str, int, str]  # file, line, function
Source = Callable[[str], str]  # a file's text; "" where it cannot be had


def uncaught(log: Sequence[str], argv: Sequence[str], source: Source = lambda _: "") -> tuple[str, ...]:
    """The traceback, if one of the program's own main thread ends this log; else ()."""
    heads = [at for at, line in enumerate(log) if line == HEAD]
    if not heads or not _ERROR.fullmatch(log[-1]):
        return ()
    told = tuple(log[heads[-1] :])
    inner = told[1:-1]
    frames = [(m["file"], int(m["line"]), m["name"]) for m in map(_FRAME.fullmatch, inner) if m]
    whole = bool(frames) and all(line.startswith("  ") for line in inner)
    return told if whole and _of_main(frames, argv, source) else ()


def _of_main(frames: Sequence[Frame], argv: Sequence[str], source: Source) -> bool:
    file, line, name = frames[0]
    if name == "_run_module_as_main":
        first = next((file for file, _, name in frames if name == "<module>"), "")
        return any(_is_module(first, word) for before, word in pairwise(argv) if before == "-m")
    command = PurePosixPath(file)
    if name != "<module>":
        return False
    if _is_script(command, argv):
        return _bare(source(file), line)
    return not command.suffix and command.name in {PurePosixPath(w).name for w in argv[:2]}


def _is_module(file: str, name: str) -> bool:
    place = "/" + name.replace(".", "/")
    return file.endswith((f"{place}.py", f"{place}/__main__.py"))


def _is_script(file: PurePosixPath, argv: Sequence[str]) -> bool:
    """Whether `python [-u ...] FILE.py` runs this file."""
    if not argv or not _PYTHON.fullmatch(PurePosixPath(argv[0]).name):
        return False
    script = next((word for word in argv[1:] if word in ("-m", "-c") or word.endswith(".py")), "")
    return script.endswith(".py") and PurePosixPath(script).name == file.name


@functools.lru_cache(8)  # asked again every second
def _bare(text: str, line: int) -> bool:
    """Whether nothing around this line of a module could have caught its error: no `try` with handlers, no `with`."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    statements = [one for one in ast.walk(tree) if isinstance(one, ast.stmt)]
    return any(_holds((one,), line) for one in statements) and not any(_holds(_caught(one), line) for one in statements)


def _caught(statement: ast.stmt) -> Sequence[ast.stmt]:
    """What may fail in it and be caught there; by `ast.Try` or, since Python 3.11, `ast.TryStar`."""
    if isinstance(statement, (ast.With, ast.AsyncWith)):
        return (statement,)
    body: Sequence[ast.stmt] = getattr(statement, "body", ())
    return body if getattr(statement, "handlers", ()) else ()


def _holds(statements: Sequence[ast.stmt], line: int) -> bool:
    return any(one.lineno <= line <= (one.end_lineno or one.lineno) for one in statements)
