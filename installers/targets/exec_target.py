"""The container's Python as a target: commands by the engine's exec, files as archives, all of it ended with us.

A command runs in a login shell, since the vendors' images put their paths into its start files.
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
from envcheck.core.process import CommandResult
from envcheck.deep.program import MARK
from installers import programs
from installers.state import state_file
from installers.state.environment import Environment, FolderKind
from installers.targets import exec_files
from installers.targets.container_errors import AGAIN, asked
from installers.targets.target import LIMIT

if TYPE_CHECKING:
    from docker import APIClient

T = TypeVar("T")
OWN = "/var/tmp/envcheck"  # outlives a restart of the container, and no volume of the recipes lies there
LOOK_S = 60.0
# What a command may have of its container's end: no status, that of a command that the engine could not start, or as
# a shell has it of one that was killed.
CUT_OFF, SETTLE_S = (None, 126, 137), 2.0
ENDED_S = 5.0  # how long the engine, when it has much to do, may need to know of an end
SHELL = 'mkdir -p "$1" && cd "$1" && shift && exec "$@"'
# Of a busy engine a file that was there came as nothing, once: what lacks the end is asked for again.
READ, LIST, WHOLE, READS = 'head -c "$1" "$2"', 'ls -1A "$1"', "\nENVCHECK whole", 3
# Ends all that has MARK in its environment: the engine can start commands, not end them.
# The whole entry: of two containers in one process namespace one may be named as the other begins.  No grep -z, which
# busybox lacks.  Twice, for what was started meanwhile.
END = """for again in 1 2; do for each in ${2:-/proc}/[0-9]*; do
grep -qsF "$1" "$each/environ" && tr '\\0' '\\n' <"$each/environ" | grep -qxF "$1" && kill -9 "${each##*/}"
done; done 2>/dev/null; true"""


@dataclass(frozen=True)
class ContainerTarget:
    """`interpreter` is the recipe's word for its Python, `folder` this host's for our own notes."""

    api: APIClient
    container: str
    interpreter: str
    folder: Path

    @property
    def python(self) -> str:
        return self.interpreter

    @property
    def own(self) -> str:
        return OWN

    @property
    def notes(self) -> Path:
        return state_file.folder_of(self.folder)

    @property
    def settings(self) -> str:
        return " (a container has what its recipe's container.environment and mounts give it)"

    def environment(self) -> Environment:
        """StepError where the container has no such Python."""
        source = (Path(programs.__path__[0]) / "inventory.py").read_text()
        done = self.run((self.python, "-I", "-c", source), timeout_s=LOOK_S, env={})
        line = next((x for x in done.out.splitlines() if x.startswith("ENVCHECK ")), "")
        if not line:
            raise StepError(
                f"{self.python} in the container {self.container} does not answer: {_last(done)}",
                f"docker exec -it {self.container} bash -lc '{self.python} --version'",
            )
        said = json.loads(line.removeprefix("ENVCHECK "))
        return Environment(
            folder=self.folder,
            kind=FolderKind.ENVIRONMENT,
            python=str(said["python"]),
            works=True,
            packages={canonicalize_name(name): str(version) for name, version in said["packages"].items()},
            torn=tuple(map(str, said["torn"])),
            mark=state_file.load(self.folder),
        )

    def surroundings(self) -> dict[str, str]:
        """None of this host's: the image has its own."""
        return {}

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float,
        env: Mapping[str, str],
        on_line: process.OnLine | None = None,
    ) -> CommandResult:
        return self._run(("bash", "-lc", SHELL, "bash", OWN, *argv), argv, timeout_s, env, on_line)

    def _run(
        self,
        words: Sequence[str],
        argv: Sequence[str],
        timeout_s: float = LOOK_S,
        env: Mapping[str, str] | None = None,
        on_line: process.OnLine | None = None,
    ) -> CommandResult:
        made = self._asked(
            lambda: self.api.exec_create(self.container, list(words), environment={**(env or {}), MARK: self.container})
        )
        began, streams, late = time.monotonic(), Streams(on_line), threading.Event()
        guard = threading.Timer(timeout_s, lambda: (late.set(), self.end()))  # type: ignore[func-returns-value]
        guard.daemon = True
        guard.start()
        try:
            for out, err in self._asked(lambda: self.api.exec_start(made["Id"], stream=True, demux=True)):
                streams.add(out, err)
        except BaseException:
            self.end()
            raise
        finally:
            guard.cancel()
        streams.close()
        status = self._status(made["Id"])
        if status != 0:
            self._still_runs(SETTLE_S if status in CUT_OFF and not late.is_set() else 0.0)
        return CommandResult(
            tuple(argv),
            process.HUNG if late.is_set() else 1 if status is None else int(status),
            *streams.texts,
            elapsed_s=time.monotonic() - began,
            absent=status == process.NOT_FOUND,
            hung=late.is_set(),
        )

    def _status(self, command: str) -> int | None:
        """The engine may hand out the end of a command's words before it knows that the command ended."""
        until = time.monotonic() + ENDED_S
        while True:
            found: Mapping[str, Any] = self._asked(lambda: self.api.exec_inspect(command))
            status = found.get("ExitCode")
            if status is not None or not found.get("Running") or time.monotonic() >= until:
                return status
            time.sleep(0.05)

    def _asked(self, deed: Callable[[], T]) -> T:
        try:
            return asked(deed)
        except StepError:
            self._still_runs()
            raise

    def _still_runs(self, settle_s: float = 0.0) -> None:
        """A command that failed with its container failed for that; StepError.  The engine names it by its id alone.

        Of a command that was cut off the engine may know before it knows that the container ended: hence `settle_s`."""
        until = time.monotonic() + settle_s
        while True:
            found: Mapping[str, Any] = asked(lambda: self.api.inspect_container(self.container))
            if not (found.get("State") or {}).get("Running"):
                raise StepError(f"the container {self.container} ended meanwhile", AGAIN.format(self.container))
            if time.monotonic() >= until:
                return
            time.sleep(0.1)

    def stop(self, argv: Sequence[str]) -> None:
        self.end()

    def end(self) -> None:
        """The command that runs, or that an earlier envcheck left running, with all that it started."""
        with contextlib.suppress(StepError):
            made = asked(
                lambda: self.api.exec_create(self.container, ["sh", "-c", END, "sh", f"{MARK}={self.container}"])
            )
            asked(lambda: self.api.exec_start(made["Id"]))

    def fresh(self, name: str) -> str:
        place = f"{OWN}/{name}"
        done = self._plain("sh", "-c", 'rm -rf "$1" && mkdir -p "$1"', "sh", place)
        if done.status != 0:
            raise StepError(f"{place} cannot be made in {self.container}: {_last(done)}", "is its disk full?")
        return place

    def write(self, path: str, content: str) -> None:
        folder, _, name = path.rpartition("/")
        packed = packing(name, content.encode())
        asked(lambda: self.api.put_archive(self.container, folder, packed))

    def read(self, path: str) -> str:
        return self._whole(path, READ, str(LIMIT), path)

    def names(self, folder: str) -> list[str]:
        return sorted(self._whole(folder, LIST, folder).splitlines())

    def bring(self, path: str, to: Path) -> None:
        exec_files.bring_file(self.api, self.container, path, to)

    def put(self, source: Path, path: str) -> None:
        folder = path.rpartition("/")[0]
        if self._plain("mkdir", "-p", folder).status != 0:
            raise StepError(f"{folder} cannot be made in {self.container}", "look there")
        exec_files.put_file(self.api, self.container, source, path)

    @contextlib.contextmanager
    def lend(self, source: Path, name: str) -> Iterator[str]:
        """A copy, which goes again."""
        folder = self.fresh(name)
        for path in sorted(source.iterdir()) if source.is_dir() else (source,):
            self.put(path, f"{folder}/{path.name}")
        yield folder if source.is_dir() else f"{folder}/{source.name}"
        self.fresh(name)

    def _whole(self, what: str, script: str, *words: str) -> str:
        """All that the script says; "" where it fails."""
        for _ in range(READS):
            done = self._plain("sh", "-c", f'{script} && printf %s "$0"', WHOLE, *words)
            if done.status != 0 or done.out.endswith(WHOLE):
                return done.out.removesuffix(WHOLE) if done.status == 0 else ""
        raise StepError(f"the engine does not hand over {what} of {self.container} whole", AGAIN.format(self.container))

    def _plain(self, *argv: str) -> CommandResult:
        """Without a login shell, whose start files may print."""
        return self._run(argv, argv)


def packing(name: str, data: bytes) -> bytes:
    """The archive of one file, as the engine takes it."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        entry = tarfile.TarInfo(name)
        entry.size, entry.mode, entry.mtime = len(data), 0o644, int(time.time())
        archive.addfile(entry, io.BytesIO(data))
    return packed.getvalue()


class Streams:
    """Both streams of a command as they come, bounded; whole lines go to `on_line`."""

    def __init__(self, on_line: process.OnLine | None) -> None:
        self._kept = (bytearray(), bytearray())
        self._open = [b"", b""]
        self._on_line = on_line

    def add(self, *pieces: bytes | None) -> None:
        for number, piece in enumerate(pieces):
            if piece:
                room = process.OUTPUT_LIMIT - len(self._kept[number])
                self._kept[number].extend(piece[:room])
                *lines, self._open[number] = (self._open[number] + piece).split(b"\n")
                self._tell(lines)

    def close(self) -> None:
        self._tell([rest for rest in self._open if rest])

    @property
    def texts(self) -> tuple[str, str]:
        out, err = (bytes(kept).decode("utf-8", "replace") for kept in self._kept)
        return out, err

    def _tell(self, lines: Sequence[bytes]) -> None:
        for line in lines if self._on_line else ():
            assert self._on_line
            self._on_line(line.decode("utf-8", "replace"))


def _last(done: CommandResult) -> str:
    lines = [line for line in (done.out + done.err).splitlines() if line.strip()]
    return lines[-1][:300] if lines else f"status {done.status}"
