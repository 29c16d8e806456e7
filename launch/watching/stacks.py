"""Dump where processes hang: Python stacks by py-spy, else state, wait channel and system call from /proc."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from envcheck.core import process
from envcheck.core.messages import _
from envcheck.core.secrets import redact_text

EACH_S, ALL = 10.0, 64  # time limit of py-spy per process; maximum number of processes and threads
KERNEL = ("status", "wchan", "syscall", "stack")  # /proc/PID/...; the last two only for root or the owner
STATUS = ("Name:", "State:", "Threads:", "VmRSS:")


def dump_stacks(processes: Mapping[int, int], folder: Path) -> tuple[str, ...]:
    """Write `folder`/stack.RANK for each rank → pid; return a line per worker with its location."""
    summary = []
    for rank, pid in sorted(processes.items())[:ALL]:
        text = redact_text(_dump_python_stack(pid) or _dump_kernel_state(pid))
        try:
            (folder / f"stack.{rank}").write_text(text, encoding="utf-8")
        except OSError:
            continue
        summary.append(_("worker {rank}: {where}", rank=rank, where=_summarize_location(text)))
    return tuple(summary)


def _dump_python_stack(pid: int) -> str:
    """Return the output of py-spy (next to this Python or on PATH), "" if missing or not permitted (ptrace)."""
    local = Path(sys.executable).parent / "py-spy"
    program = str(local) if local.exists() else shutil.which("py-spy")
    if not program:
        return ""
    done = process.run_command((program, "dump", "--pid", str(pid)), timeout_s=EACH_S)
    return done.out if done.status == 0 else ""


def _dump_kernel_state(pid: int) -> str:
    """Return the readable parts of /proc/PID and of its threads."""
    place = Path("/proc") / str(pid)
    parts = [_read_proc_file(place, name) for name in KERNEL]
    try:
        threads = sorted((place / "task").iterdir(), key=lambda path: int(path.name))[:ALL]
    except (OSError, ValueError):
        threads = []
    parts += [
        f"thread {path.name} {_read_line(path / 'comm')}: {_read_line(path / 'wchan') or '?'}" for path in threads
    ]
    return "\n".join(filter(None, parts)) + "\n"


def _read_proc_file(place: Path, name: str) -> str:
    try:
        lines = (place / name).read_text("utf-8", "replace").splitlines()
    except OSError:
        return ""
    if name == "status":
        return "\n".join(line for line in lines if line.startswith(STATUS))
    return f"{name}: " + "\n  ".join(lines)


def _read_line(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace").strip()
    except OSError:
        return ""


def _summarize_location(text: str) -> str:
    """Return the innermost frame of the main thread, else state and wait channel."""
    lines = [line.strip() for line in text.splitlines()]
    threads = [number for number, line in enumerate(lines[:-1]) if line.startswith("Thread ")]
    main = next((n for n in threads if "MainThread" in lines[n]), threads[0] if threads else None)
    if main is not None:
        return lines[main + 1]
    named = {line.split(":")[0]: line for line in lines if ":" in line}
    return ", ".join(named[name] for name in ("State", "wchan") if name in named) or _("cannot read its stack")
