"""The actions of `doctor --fix` and their undo.  Each is plain data, so that the journal can store it."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from envcheck.core import process as runner
from envcheck.core.errors import StepError
from envcheck.core.messages import NOTHING, Message, _, join
from envcheck.core.units import format_gib
from installers.fixes import profile_edit

COMMAND_S = 20.0
END_S = 10.0  # for the driver to release device memory; ranks save nothing on SIGTERM


@dataclass(frozen=True)
class ResizeTmpfs:
    """Resize a tmpfs until the next reboot."""

    path: str
    size_bytes: int
    before_bytes: int

    @property
    def description(self) -> Message:
        """What the action does, for the plan."""
        return _(
            "resize {path} from {before_bytes} to {size_bytes} until the next reboot",
            path=self.path,
            size_bytes=format_gib(self.size_bytes),
            before_bytes=format_gib(self.before_bytes),
        )

    @property
    def shell_command(self) -> str:
        """The equivalent shell command."""
        return f"sudo mount -o remount,size={self.size_bytes} {self.path}"

    def apply_action(self) -> None:
        """Resize the file system; StepError if that fails."""
        _run_command("mount", "-o", f"remount,size={self.size_bytes}", self.path)

    def undo_action(self) -> Message:
        """Restore the previous size."""
        _run_command("mount", "-o", f"remount,size={self.before_bytes}", self.path)
        return NOTHING


@dataclass(frozen=True)
class SetSysctl:
    """Set a kernel parameter until the next reboot."""

    name: str
    value: str
    before: str

    @property
    def description(self) -> Message:
        """What the action does, for the plan."""
        return _(
            "set {name} from {before!r} to {value!r} until the next reboot",
            name=self.name,
            value=self.value,
            before=self.before,
        )

    @property
    def shell_command(self) -> str:
        """The equivalent shell command."""
        return f"sudo sysctl -w {self.name}='{self.value}'"

    def apply_action(self) -> None:
        """Set the parameter; StepError if that fails."""
        _run_command("sysctl", "-q", "-w", f"{self.name}={self.value}")

    def undo_action(self) -> Message:
        """Restore the previous value; return why not, if it was changed since."""
        if self.read_current() != self.value.split():
            return _("kept: changed by someone else since")
        _run_command("sysctl", "-q", "-w", f"{self.name}={self.before}")
        return NOTHING

    def read_current(self) -> list[str]:
        """Return the parameter's current value, split at white space."""
        return Path("/proc/sys", *self.name.split(".")).read_text().split()


@dataclass(frozen=True)
class CommentOutLines:
    """Comment out lines of a shell profile that set variables."""

    file: str
    lines: tuple[str, ...]
    numbers: tuple[int, ...] = ()  # counted from 1; missing in journals of earlier versions

    @property
    def description(self) -> Message:
        """What the action does, for the plan."""
        return _(
            "remove {lines} from {file}, effective at the next login",
            file=self.file,
            lines=join(", ", (line.strip() for line in self.lines)),
        )

    @property
    def shell_command(self) -> str:
        """The equivalent shell command."""
        return f"edit {self.file}"

    def apply_action(self) -> None:
        """Comment out the lines; StepError if the file has changed."""
        profile_edit.comment_out(self.file, self.lines, self.numbers)

    def undo_action(self) -> Message:
        """Restore the lines; return why not, if they are gone."""
        try:
            found = profile_edit.restore_lines(self.file, self.lines, self.numbers)
        except FileNotFoundError:
            return _("the file no longer exists")
        return NOTHING if found else _("kept: changed by someone else since")


@dataclass(frozen=True)
class EndProcess:
    """End a process of the user that an ended job left on a device."""

    pid: int
    started: float
    name: str

    @property
    def description(self) -> Message:
        """What the action does, for the plan."""
        return _("end process {pid} ({name})", pid=self.pid, name=self.name)

    @property
    def shell_command(self) -> str:
        """The equivalent shell command."""
        return f"kill {self.pid}"

    def apply_action(self) -> None:
        """Send SIGTERM, then SIGKILL; a process that reuses the number is left alone."""
        import psutil

        with contextlib.suppress(psutil.NoSuchProcess):
            process = psutil.Process(self.pid)
            if process.create_time() != self.started:
                return
            process.terminate()
            if psutil.wait_procs([process], END_S)[1]:
                process.kill()
                if psutil.wait_procs([process], END_S)[1]:
                    why = _("cannot end process {pid}: it is blocked in the driver", pid=self.pid)
                    raise StepError(why, _("reset the device, or reboot the machine"))

    def undo_action(self) -> Message:
        """Return that this cannot be undone."""
        return _("cannot be undone: the process has ended")


FixAction = ResizeTmpfs | SetSysctl | CommentOutLines | EndProcess
KINDS: Mapping[str, Callable[..., FixAction]] = {  # by the word in journals
    "remount": ResizeTmpfs,
    "sysctl": SetSysctl,
    "unset": CommentOutLines,
    "end": EndProcess,
}


def build_journal_entry(action: FixAction) -> dict[str, Any]:
    """Return the action for the journal; its `deed` is unique, even for two actions of a kind on one object."""
    values = asdict(action)
    kind = next(word for word, action_class in KINDS.items() if action_class is type(action))
    return {
        "deed": f"{kind} {next(iter(values.values()))} {secrets.token_hex(4)}",
        "values": values,
    }


def parse_journal_entry(entry: Mapping[str, Any]) -> FixAction | None:
    """Return the action of a journal entry, None if it is not a known one."""
    kind = KINDS.get(str(entry.get("deed")).partition(" ")[0])
    values = entry.get("values")
    try:
        if kind is None or not isinstance(values, dict):
            return None
        return kind(**{name: tuple(v) if isinstance(v, list) else v for name, v in values.items()})
    except TypeError:
        return None


def _run_command(*argv: str) -> None:
    done = runner.run_command(argv, timeout_s=COMMAND_S)
    if done.status:
        lines = (done.err or done.out).strip().splitlines()
        why = lines[-1] if lines else _("exited with status {status}", status=done.status)
        raise StepError(
            _("{command}: {reason}", command=" ".join(argv), reason=why),
            _("run the command yourself, or ask an administrator"),
        )
