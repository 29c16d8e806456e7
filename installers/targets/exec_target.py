"""A container as a target: commands run through the engine's exec, files are copied as archives.

Commands run in a login shell, because the vendors' images set their paths in its start files.  They are ended when
envcheck ends.
"""

from __future__ import annotations

import contextlib
import io
import json
import tarfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from packaging.utils import canonicalize_name

from envcheck.core import process
from envcheck.core.errors import StepError
from envcheck.core.messages import Message, _, fill, verbatim
from envcheck.core.portable.exit_status import HUNG, NOT_FOUND
from envcheck.core.process import CommandResult
from envcheck.deep.program import MARK
from envcheck.settings import site_access
from envcheck.settings.site_access import NO_SITE, SiteAccess
from installers import programs
from installers.state import state_file
from installers.state.environment import Environment, FolderKind
from installers.targets import exec_files
from installers.targets.container_errors import AGAIN, call_engine
from installers.targets.target import LIMIT

if TYPE_CHECKING:
    from docker import APIClient

T = TypeVar("T")
OWN = "/var/tmp/envcheck"  # survives a restart of the container, and no recipe mounts a volume there
LOOK_S = 60.0
# The exit status of a command may show that its container stopped: none, 126 (the engine could not start it) or 137
# (killed).
CUT_OFF, SETTLE_S = (None, 126, 137), 2.0
ENDED_S = 5.0  # how long a busy engine may need to notice that a command ended
SHELL = 'mkdir -p "$1" && cd "$1" && shift && exec "$@"'
# A busy engine once returned no output for an existing file: output without the end marker is requested again.
READ, LIST, WHOLE, READS = 'head -c "$1" "$2"', 'ls -1A "$1"', "\nENVCHECK whole", 3
# Kill all processes with MARK in their environment, because the engine can start commands but not end them.  The
# whole entry is compared: of two containers in one PID namespace, the name of one may begin with that of the other.
# busybox has no grep -z, hence tr.  Twice, for processes started during the first pass.
END = """for again in 1 2; do for each in ${2:-/proc}/[0-9]*; do
grep -qsF "$1" "$each/environ" && tr '\\0' '\\n' <"$each/environ" | grep -qxF "$1" && kill -9 "${each##*/}"
done; done 2>/dev/null; true"""


@dataclass(frozen=True)
class ContainerTarget:
    """`interpreter` is the recipe's Python in the container, `folder` is on this host, for envcheck's records."""

    api: APIClient
    container: str
    interpreter: str
    folder: Path
    site: SiteAccess = NO_SITE

    @property
    def python(self) -> str:
        return self.interpreter

    @property
    def own_folder(self) -> str:
        return OWN

    @property
    def notes_folder(self) -> Path:
        return state_file.state_folder(self.folder)

    @property
    def settings_hint(self) -> Message:
        return _(" (for a container: in container.environment and container.mounts of the recipe)")

    def read_environment(self) -> Environment:
        """Return the packages of the container's Python; raise StepError if it cannot run."""
        source = (Path(programs.__path__[0]) / "inventory.py").read_text()
        done = self.run_command((self.python, "-I", "-c", source), timeout_s=LOOK_S, env={})
        line = next((x for x in done.out.splitlines() if x.startswith("ENVCHECK ")), "")
        if not line:
            raise StepError(
                _(
                    "cannot run {python} in container {container}: {output}",
                    python=self.python,
                    container=self.container,
                    output=_last_line(done),
                ),
                verbatim(f"docker exec -it {self.container} bash -lc '{self.python} --version'"),
            )
        inventory = json.loads(line.removeprefix("ENVCHECK "))
        return Environment(
            folder=self.folder,
            kind=FolderKind.ENVIRONMENT,
            python=str(inventory["python"]),
            works=True,
            packages={canonicalize_name(name): str(version) for name, version in inventory["packages"].items()},
            torn=tuple(map(str, inventory["torn"])),
            mark=state_file.load_state(self.folder),
        )

    def list_variables(self) -> dict[str, str]:
        """Return the site's: variables of this host do not apply, the image has its own."""
        return site_access.list_variables(self.site, site_access.CA_IN_CONTAINER)

    def run_command(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float,
        env: Mapping[str, str],
        on_line: process.OnLine | None = None,
    ) -> CommandResult:
        return self._run_exec(("bash", "-lc", SHELL, "bash", OWN, *argv), argv, timeout_s, env, on_line)

    def _run_exec(
        self,
        words: Sequence[str],
        argv: Sequence[str],
        timeout_s: float = LOOK_S,
        env: Mapping[str, str] | None = None,
        on_line: process.OnLine | None = None,
    ) -> CommandResult:
        made = self._call_engine(
            lambda: self.api.exec_create(self.container, list(words), environment={**(env or {}), MARK: self.container})
        )
        began, streams, late = time.monotonic(), ExecStreams(on_line), threading.Event()
        guard = threading.Timer(timeout_s, lambda: (late.set(), self.end_commands()))  # type: ignore[func-returns-value]
        guard.daemon = True
        guard.start()
        try:
            for out, err in self._call_engine(lambda: self.api.exec_start(made["Id"], stream=True, demux=True)):
                streams.add_pieces(out, err)
        except BaseException:
            self.end_commands()
            raise
        finally:
            guard.cancel()
        streams.close()
        status = self._exit_status(made["Id"])
        if status != 0:
            self._check_running(SETTLE_S if status in CUT_OFF and not late.is_set() else 0.0)
        return CommandResult(
            tuple(argv),
            HUNG if late.is_set() else 1 if status is None else int(status),
            *streams.texts,
            elapsed_s=time.monotonic() - began,
            absent=status == NOT_FOUND,
            hung=late.is_set(),
        )

    def _exit_status(self, command: str) -> int | None:
        """Return the exit status; the engine may close the output before it knows that the command ended."""
        until = time.monotonic() + ENDED_S
        while True:
            found: Mapping[str, Any] = self._call_engine(lambda: self.api.exec_inspect(command))
            status = found.get("ExitCode")
            if status is not None or not found.get("Running") or time.monotonic() >= until:
                return status
            time.sleep(0.05)

    def _call_engine(self, call: Callable[[], T]) -> T:
        try:
            return call_engine(call)
        except StepError:
            self._check_running()
            raise

    def _check_running(self, settle_s: float = 0.0) -> None:
        """Raise StepError if the container is not running: that is why the command failed, and the engine's own error
        names the container only by its id.

        The engine may notice the end of the command before the end of the container: it gets `settle_s` for that.
        """
        until = time.monotonic() + settle_s
        while True:
            found: Mapping[str, Any] = call_engine(lambda: self.api.inspect_container(self.container))
            if not (found.get("State") or {}).get("Running"):
                raise StepError(
                    _("container {container} stopped while a command was running in it", container=self.container),
                    fill(AGAIN, what=self.container),
                )
            if time.monotonic() >= until:
                return
            time.sleep(0.1)

    def stop_command(self, argv: Sequence[str]) -> None:
        self.end_commands()

    def end_commands(self) -> None:
        """Kill envcheck's commands in the container, also those of an earlier run, with all their child processes."""
        with contextlib.suppress(StepError):
            made = call_engine(
                lambda: self.api.exec_create(self.container, ["sh", "-c", END, "sh", f"{MARK}={self.container}"])
            )
            call_engine(lambda: self.api.exec_start(made["Id"]))

    def make_empty_folder(self, name: str) -> str:
        place = f"{OWN}/{name}"
        done = self._run_plain("sh", "-c", 'rm -rf "$1" && mkdir -p "$1"', "sh", place)
        if done.status != 0:
            raise StepError(
                _(
                    "cannot create {folder} in container {container}: {output}",
                    folder=place,
                    container=self.container,
                    output=_last_line(done),
                ),
                _("check the free disk space with `docker exec {container} df -h`", container=self.container),
            )
        return place

    def write_file(self, path: str, content: str) -> None:
        folder, _unused, name = path.rpartition("/")
        packed = pack_archive(name, content.encode())
        call_engine(lambda: self.api.put_archive(self.container, folder, packed))

    def read_file(self, path: str) -> str:
        return self._read_whole(path, READ, str(LIMIT), path)

    def list_folder(self, folder: str) -> list[str]:
        return sorted(self._read_whole(folder, LIST, folder).splitlines())

    def copy_out(self, path: str, to: Path) -> None:
        exec_files.bring_file(self.api, self.container, path, to)

    def copy_in(self, source: Path, path: str) -> None:
        folder = path.rpartition("/")[0]
        if self._run_plain("mkdir", "-p", folder).status != 0:
            raise StepError(
                _("cannot create {folder} in container {container}", folder=folder, container=self.container),
                _("check the free disk space with `docker exec {container} df -h`", container=self.container),
            )
        exec_files.put_file(self.api, self.container, source, path)

    @contextlib.contextmanager
    def lend_path(self, source: Path, name: str) -> Iterator[str]:
        """Yield the path of a copy in the container, which is removed at the end."""
        folder = self.make_empty_folder(name)
        for path in sorted(source.iterdir()) if source.is_dir() else (source,):
            self.copy_in(path, f"{folder}/{path.name}")
        yield folder if source.is_dir() else f"{folder}/{source.name}"
        self.make_empty_folder(name)

    def _read_whole(self, what: str, script: str, *words: str) -> str:
        """Return the complete output of the script; "" if it fails."""
        for _unused in range(READS):
            done = self._run_plain("sh", "-c", f'{script} && printf %s "$0"', WHOLE, *words)
            if done.status != 0 or done.out.endswith(WHOLE):
                return done.out.removesuffix(WHOLE) if done.status == 0 else ""
        raise StepError(
            _("incomplete output from container {container} for {path}", container=self.container, path=what),
            fill(AGAIN, what=self.container),
        )

    def _run_plain(self, *argv: str) -> CommandResult:
        """Run a command without a login shell, whose start files may print."""
        return self._run_exec(argv, argv)


def pack_archive(name: str, data: bytes) -> bytes:
    """Return a tar archive of one file, for the engine's archive API."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        entry = tarfile.TarInfo(name)
        entry.size, entry.mode, entry.mtime = len(data), 0o644, int(time.time())
        archive.addfile(entry, io.BytesIO(data))
    return packed.getvalue()


class ExecStreams:
    """Collects both output streams of a command up to a limit; complete lines are passed to `on_line`."""

    def __init__(self, on_line: process.OnLine | None) -> None:
        self._kept = (bytearray(), bytearray())
        self._open = [b"", b""]
        self._on_line = on_line

    def add_pieces(self, *pieces: bytes | None) -> None:
        for number, piece in enumerate(pieces):
            if piece:
                room = process.OUTPUT_LIMIT - len(self._kept[number])
                self._kept[number].extend(piece[:room])
                *lines, self._open[number] = (self._open[number] + piece).split(b"\n")
                self._forward_lines(lines)

    def close(self) -> None:
        self._forward_lines([rest for rest in self._open if rest])

    @property
    def texts(self) -> tuple[str, str]:
        out, err = (bytes(kept).decode("utf-8", "replace") for kept in self._kept)
        return out, err

    def _forward_lines(self, lines: Sequence[bytes]) -> None:
        for line in lines if self._on_line else ():
            assert self._on_line
            self._on_line(line.decode("utf-8", "replace"))


def _last_line(done: CommandResult) -> str:
    lines = [line for line in (done.out + done.err).splitlines() if line.strip()]
    return lines[-1][:300] if lines else _("exit code {status}", status=done.status)
