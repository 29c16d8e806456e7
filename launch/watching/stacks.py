"""Where processes hang: py-spy's words where it is there, else the kernel's: state, what it waits in, system call."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from envcheck.core import process
from envcheck.core.secrets import redact

EACH_S, ALL = 10.0, 64  # py-spy stops a process for some milliseconds; so many processes are looked at
KERNEL = ("status", "wchan", "syscall", "stack")  # /proc/PID/..., the last two for root or the owner alone
STATUS = ("Name:", "State:", "Threads:", "VmRSS:")


def dump(processes: Mapping[int, int], folder: Path) -> tuple[str, ...]:
    """Writes `folder`/stack.RANK for each rank → pid, and says in a line each where it is."""
    said = []
    for rank, pid in sorted(processes.items())[:ALL]:
        text = redact(_python(pid) or _kernel(pid))
        try:
            (folder / f"stack.{rank}").write_text(text, encoding="utf-8")
        except OSError:
            continue
        said.append(f"worker {rank}: {_where(text)}")
    return tuple(said)


def _python(pid: int) -> str:
    """py-spy beside our own Python or on PATH; '' where it is not there or may not look (ptrace)."""
    beside = Path(sys.executable).parent / "py-spy"
    program = str(beside) if beside.exists() else shutil.which("py-spy")
    if not program:
        return ""
    done = process.run((program, "dump", "--pid", str(pid)), timeout_s=EACH_S)
    return done.out if done.status == 0 else ""


def _kernel(pid: int) -> str:
    """Of the process and each of its threads, as far as we may read it."""
    place = Path("/proc") / str(pid)
    told = [_read(place, name) for name in KERNEL]
    try:
        threads = sorted((place / "task").iterdir(), key=lambda path: int(path.name))[:ALL]
    except (OSError, ValueError):
        threads = []
    told += [f"thread {path.name} {_line(path / 'comm')}: {_line(path / 'wchan') or '?'}" for path in threads]
    return "\n".join(filter(None, told)) + "\n"


def _read(place: Path, name: str) -> str:
    try:
        lines = (place / name).read_text("utf-8", "replace").splitlines()
    except OSError:
        return ""
    if name == "status":
        return "\n".join(line for line in lines if line.startswith(STATUS))
    return f"{name}: " + "\n  ".join(lines)


def _line(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace").strip()
    except OSError:
        return ""


def _where(text: str) -> str:
    """py-spy's innermost frame of the main thread; else what the kernel says that it waits in."""
    lines = [line.strip() for line in text.splitlines()]
    threads = [number for number, line in enumerate(lines[:-1]) if line.startswith("Thread ")]
    main = next((n for n in threads if "MainThread" in lines[n]), threads[0] if threads else None)
    if main is not None:
        return lines[main + 1]
    named = {line.split(":")[0]: line for line in lines if ":" in line}
    return ", ".join(named[name] for name in ("State", "wchan") if name in named) or "nothing could be read of it"
