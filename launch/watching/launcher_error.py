"""Find an uncaught error in the log of a launcher that is still running.  Pure functions.

Python prints the same traceback for a handled error (traceback.print_exc).  The first frame distinguishes them: that of
an uncaught error is the start of the program, in runpy for `python -m MODULE`, else in the command installed by pip,
which handles no errors.  The first frame of a script may be within a `try`, so its source is parsed.
Observed: the main thread of paddle.distributed.launch fails because its port is in use, but another thread keeps the
process alive.
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
Source = Callable[[str], str]  # path → text of the file, "" if not available


def find_uncaught_error(log: Sequence[str], argv: Sequence[str], source: Source = lambda _: "") -> tuple[str, ...]:
    """Return the traceback at the end of the log if it is from the program's main thread, else ()."""
    heads = [at for at, line in enumerate(log) if line == HEAD]
    if not heads or not _ERROR.fullmatch(log[-1]):
        return ()
    traceback = tuple(log[heads[-1] :])
    inner = traceback[1:-1]
    frames = [(m["file"], int(m["line"]), m["name"]) for m in map(_FRAME.fullmatch, inner) if m]
    whole = bool(frames) and all(line.startswith("  ") for line in inner)
    return traceback if whole and _is_main_thread(frames, argv, source) else ()


def _is_main_thread(frames: Sequence[Frame], argv: Sequence[str], source: Source) -> bool:
    file, line, name = frames[0]
    if name == "_run_module_as_main":
        first = next((file for file, _, name in frames if name == "<module>"), "")
        return any(_is_module(first, word) for before, word in pairwise(argv) if before == "-m")
    command = PurePosixPath(file)
    if name != "<module>":
        return False
    if _is_script(command, argv):
        return _is_unguarded(source(file), line)
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


@functools.lru_cache(8)  # called every second
def _is_unguarded(text: str, line: int) -> bool:
    """Whether no `try` with handlers and no `with` of the module encloses this line."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    statements = [one for one in ast.walk(tree) if isinstance(one, ast.stmt)]
    return any(_contains_line((one,), line) for one in statements) and not any(
        _contains_line(_list_guarded(one), line) for one in statements
    )


def _list_guarded(statement: ast.stmt) -> Sequence[ast.stmt]:
    """Return the statements whose errors this one may catch (`with`, `ast.Try`, `ast.TryStar`)."""
    if isinstance(statement, (ast.With, ast.AsyncWith)):
        return (statement,)
    body: Sequence[ast.stmt] = getattr(statement, "body", ())
    return body if getattr(statement, "handlers", ()) else ()


def _contains_line(statements: Sequence[ast.stmt], line: int) -> bool:
    return any(one.lineno <= line <= (one.end_lineno or one.lineno) for one in statements)
