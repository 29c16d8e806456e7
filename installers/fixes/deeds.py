"""What a remedy does to the machine, and how it is taken back.  Each deed is plain data, so that a journal holds it."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from envcheck.core import process as runner
from envcheck.core.errors import StepError
from envcheck.core.units import gib
from installers.fixes import profile_edit

COMMAND_S = 20.0
END_S = 10.0  # a framework's rank writes nothing on SIGTERM; its driver needs some seconds to give the memory back


@dataclass(frozen=True)
class Remount:
    """A tmpfs made larger or smaller, until the next start of the machine."""

    path: str
    size_bytes: int
    before_bytes: int

    @property
    def words(self) -> str:
        return f"{self.path} holds {gib(self.size_bytes)} instead of {gib(self.before_bytes)}, until the next start"

    @property
    def command(self) -> str:
        return f"sudo mount -o remount,size={self.size_bytes} {self.path}"

    def do(self) -> None:
        _run("mount", "-o", f"remount,size={self.size_bytes}", self.path)

    def back(self) -> str:
        _run("mount", "-o", f"remount,size={self.before_bytes}", self.path)
        return ""


@dataclass(frozen=True)
class Sysctl:
    """A kernel's parameter, until the next start of the machine."""

    name: str
    value: str
    before: str

    @property
    def words(self) -> str:
        return f"{self.name} is {self.value!r} instead of {self.before!r}, until the next start"

    @property
    def command(self) -> str:
        return f"sudo sysctl -w {self.name}='{self.value}'"

    def do(self) -> None:
        _run("sysctl", "-q", "-w", f"{self.name}={self.value}")

    def back(self) -> str:
        if self.now() != self.value.split():
            return "kept, since somebody has changed it since"
        _run("sysctl", "-q", "-w", f"{self.name}={self.before}")
        return ""

    def now(self) -> list[str]:
        return Path("/proc/sys", *self.name.split(".")).read_text().split()


@dataclass(frozen=True)
class Unset:
    """Lines of a shell's profile that set variables, commented out; they are kept where they stand."""

    file: str
    lines: tuple[str, ...]
    numbers: tuple[int, ...] = ()  # from 1; a journal of before has none

    @property
    def words(self) -> str:
        return f"{self.file} no longer says {', '.join(line.strip() for line in self.lines)}, from the next login on"

    @property
    def command(self) -> str:
        return f"edit {self.file}"

    def do(self) -> None:
        profile_edit.comment_out(self.file, self.lines, self.numbers)

    def back(self) -> str:
        try:
            found = profile_edit.restore(self.file, self.lines, self.numbers)
        except FileNotFoundError:
            return "there is no such file any more"
        return "" if found else "kept, since somebody has changed it since"


@dataclass(frozen=True)
class End:
    """A process of the caller's own that an ended job left on a card."""

    pid: int
    started: float
    name: str

    @property
    def words(self) -> str:
        return f"process {self.pid} ({self.name}) is ended"

    @property
    def command(self) -> str:
        return f"kill {self.pid}"

    def do(self) -> None:
        """SIGTERM, then SIGKILL; a number that was given to another process since is left alone."""
        import psutil

        with contextlib.suppress(psutil.NoSuchProcess):
            process = psutil.Process(self.pid)
            if process.create_time() != self.started:
                return
            process.terminate()
            if psutil.wait_procs([process], END_S)[1]:
                process.kill()
                if psutil.wait_procs([process], END_S)[1]:
                    why = f"process {self.pid} cannot be ended: the driver holds it"
                    raise StepError(why, "reset the card, or start the machine anew")

    def back(self) -> str:
        return "not taken back: an ended process stays ended"


Deed = Remount | Sysctl | Unset | End
KINDS: Mapping[str, Callable[..., Deed]] = {kind.__name__.lower(): kind for kind in (Remount, Sysctl, Unset, End)}


def noted(deed: Deed) -> dict[str, Any]:
    """For the journal; `deed` tells deeds apart, also two of a kind at one place."""
    values = asdict(deed)
    return {
        "deed": f"{type(deed).__name__.lower()} {next(iter(values.values()))} {secrets.token_hex(4)}",
        "values": values,
    }


def read(entry: Mapping[str, Any]) -> Deed | None:
    """From the journal; None where it holds what nobody understands."""
    kind = KINDS.get(str(entry.get("deed")).partition(" ")[0])
    values = entry.get("values")
    try:
        if kind is None or not isinstance(values, dict):
            return None
        return kind(**{name: tuple(v) if isinstance(v, list) else v for name, v in values.items()})
    except TypeError:
        return None


def _run(*argv: str) -> None:
    done = runner.run(argv, timeout_s=COMMAND_S)
    if done.status:
        said = (done.err or done.out).strip().splitlines()
        why = said[-1] if said else f"ended with {done.status}"
        raise StepError(f"{' '.join(argv)}: {why}", "do it by hand, or ask an administrator")
