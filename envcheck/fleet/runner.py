"""Run an envcheck command on many hosts at once: output as it arrives, and how each ended.

Uses OpenSSH through ClusterShell like `collector`, but without a deadline: ssh detects a dead host by keep-alive
messages.  Ctrl-C is forwarded to the hosts; the third one disconnects at once.
"""

from __future__ import annotations

import re
import shutil
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from envcheck.core.errors import UsageError
from envcheck.core.messages import _
from envcheck.core.model import Finding
from envcheck.core.signals import handle_signals, silence_output
from envcheck.fleet import collector, connectivity
from envcheck.fleet.output import BYTES_LIMIT, HostOutput
from envcheck.payload import pyz, remote_command
from envcheck.payload.content import Payload
from envcheck.payload.remote_collector import MARK
from envcheck.payload.remote_command import Word
from envcheck.payload.unpack import ATTACHMENTS, PYZ

# After a minute without any response the host or the network is considered down.
ALIVE = "-oServerAliveInterval=15 -oServerAliveCountMax=4"
OUT_LIMIT = BYTES_LIMIT  # of a document; lines that are only forwarded have just a limit per line
UNBROKEN_LIMIT = 1 << 20  # bytes without a line feed
STOPS = 3
UNBEGUN = "not-started"  # reported by a host that was stopped before it started
LOOK_EVERY_S = 0.2
_MARK = MARK.encode() + b" "
_CODE = re.compile(r"-?[0-9]{1,3}")

LineHandler = Callable[[str, str], None]  # host, line of its standard error


@dataclass
class CommandOutcome:
    """How a host's command ended; `code` is None if unknown; `last` are its last lines on standard error."""

    host: str
    output: HostOutput
    code: int | None = None
    begun: bool = False
    out: list[str] = field(default_factory=list)
    last: list[str] = field(default_factory=list)
    size: int = 0

    @property
    def text(self) -> str:
        """Its standard output."""
        return "\n".join(self.out)

    @property
    def is_not_begun(self) -> bool:
        """Whether it was stopped before it started."""
        return [word.strip() for word in self.output.words[-1:]] == [UNBEGUN]

    @property
    def failure(self) -> Finding:
        """The finding for a command that did not report its end."""
        return connectivity.judge_broken_command(self.output)


@dataclass(frozen=True)
class FleetCommand:
    """A command line per host, in `words`; `carried` are local files that these name.

    `together`: the hosts wait for each other, so all run at once; `fanout` then limits only how many start at a time.
    """

    words: Mapping[str, Sequence[Word]]
    carried: Payload | None = None
    fanout: int = 64
    deadline_s: float | None = None
    forget: bool = False
    together: bool = False

    @property
    def payloads(self) -> dict[str, Payload]:
        """The payloads that each host needs, by name."""
        return {PYZ: pyz.build_payload()} | ({ATTACHMENTS: self.carried} if self.carried else {})


class StopRequests:
    """Counts Ctrl-C, SIGTERM and a closed terminal; `schedule_stops` adds stops of envcheck's own."""

    def __init__(self) -> None:
        self.count = 0
        self._later: list[float] = []

    def schedule_stops(self, *after_s: float) -> None:
        """Add stops after these times; only the first call counts."""
        self._later = self._later or [time.monotonic() + seconds for seconds in after_s]

    def __call__(self, number: int, _frame: object) -> None:
        if number == signal.SIGHUP:
            silence_output()
        self.count += 1

    @property
    def due_count(self) -> int:
        """How many stops are due."""
        return max(self.count, sum(time.monotonic() >= when for when in self._later))


def parse_exit_code(text: str) -> int | None:
    """Return the exit code that a host reported, None if it is not a valid one."""
    return int(text) if _CODE.fullmatch(text) else None


def run_commands(
    order: FleetCommand,
    on_line: LineHandler,
    ended: Callable[[CommandOutcome], None] = lambda outcome: None,
    stops: StopRequests | None = None,
) -> list[CommandOutcome]:
    """Run on all hosts; return the outcomes in the order of `order.words`.  `ended` gets each as it ends."""
    if not shutil.which("ssh"):
        raise UsageError(
            _("--hosts requires ssh, but ssh is not installed on this machine"), _("install the OpenSSH client")
        )
    from ClusterShell.Task import task_self, task_terminate

    collector.silence_clustershell()
    stops, payloads = stops or StopRequests(), order.payloads
    outcomes = {host: CommandOutcome(host, HostOutput(host)) for host in order.words}
    task = task_self()
    for stream in ("stdout", "stderr"):
        task.set_default(f"{stream}_msgtree", False)
    task.set_info("fanout", len(order.words) if order.together else order.fanout)
    task.set_info("connect_timeout", collector.CONNECT_S)
    task.set_info("ssh_options", f"{collector.OPTIONS} {ALIVE}")
    if shutil.which("setsid"):  # Ctrl-C signals the whole process group: ssh would exit before it can forward it
        task.set_info("ssh_path", "setsid ssh")
    workers: dict[str, Any] = {}
    rest = list(order.words)[::-1]

    def more() -> None:
        """Start the next hosts; none after a stop."""
        while rest and not stops.due_count and not (order.together and _count_starting(workers) >= order.fanout):
            host = rest.pop()
            line = remote_command.render_command(payloads, order.words[host], order.forget)
            own = {"handler": talk_class(outcomes[host]), "timeout": order.deadline_s, "command": line, "stderr": True}
            workers[host] = worker_class(host, **own)
            task.schedule(workers[host])

    worker_class, talk_class, timer_class = _define_handlers(payloads, on_line, ended, stops, more)
    try:
        with handle_signals(stops):
            more()
            task.timer(LOOK_EVERY_S, timer_class(task, workers), interval=LOOK_EVERY_S, autoclose=True)
            task.run()
    except BaseException:
        task.abort(kill=True)
        raise
    finally:
        task_terminate()
    for host in rest[::-1]:
        outcomes[host].output.words.append(UNBEGUN)
        ended(outcomes[host])
    return list(outcomes.values())


def _count_starting(workers: Mapping[str, Any]) -> int:
    """Return how many have neither started nor ended."""
    return sum(not (worker.eh.outcome.begun or worker.eh.over) for worker in workers.values())


def _define_handlers(
    payloads: Mapping[str, Payload],
    on_line: LineHandler,
    ended: Callable[[CommandOutcome], None],
    stops: StopRequests,
    more: Callable[[], None],
) -> tuple[Any, Any, Any]:
    """Return ClusterShell's worker with a limit on a line, the dialogue with one host, and the poll for Ctrl-C."""
    from ClusterShell.Event import EventHandler
    from ClusterShell.Worker.EngineClient import EngineClientEOF
    from ClusterShell.Worker.Ssh import SshClient, WorkerSsh

    class CommandClient(SshClient):
        unbroken = 0

        def _read(self, sname: str, size: int = 65536) -> bytes:
            data: bytes = super()._read(sname, size)
            self.unbroken = len(data) - data.rfind(b"\n") if b"\n" in data else self.unbroken + len(data)
            if self.unbroken > UNBROKEN_LIMIT or self.worker.eh.outcome.size > OUT_LIMIT:
                self.worker.eh.outcome.output.flood = True
                self.worker.abort()
                raise EngineClientEOF
            return data

    class CommandWorker(WorkerSsh):
        SHELL_CLASS = CommandClient

    class CommandHandler(EventHandler):
        def __init__(self, outcome: CommandOutcome) -> None:
            self.outcome, self.over = outcome, False

        def ev_start(self, worker: Any) -> None:
            self.began = time.monotonic()

        def ev_read(self, worker: Any, node: str, sname: str, msg: bytes) -> None:
            if sname == "stderr":
                self.outcome.output.add_error_line(msg)
            elif not msg.startswith(_MARK):
                self.outcome.output.add_output_line(msg)
            else:
                word, _unused, rest = msg[len(_MARK) :].partition(b" ")
                self.outcome.output.heard_s = time.monotonic() - self.began
                self._word(worker, word, rest.decode("utf-8", "replace"))

        def _word(self, worker: Any, word: bytes, rest: str) -> None:
            outcome = self.outcome
            if word == b"out":
                outcome.size += len(rest)
                outcome.out.append(rest)
            elif word == b"err":
                outcome.last = [*outcome.last, rest[:4096]][-12:]
                on_line(outcome.host, rest[:4096])
            elif word == b"busy":
                return
            elif word == b"exit":
                outcome.code = parse_exit_code(rest)
            else:
                outcome.output.add_output_line(_MARK + word + b" " + rest.encode())
                outcome.begun = outcome.begun or word == b"begun"
                more()
                if word == b"want" and len(outcome.output.words) == 1:  # once, even if it asks repeatedly
                    self._give(worker, rest.split())

        def _give(self, worker: Any, wanted: list[str]) -> None:
            for name, payload in payloads.items():
                if name in wanted:
                    worker.write(payload.data)
            if stops.due_count:
                worker.set_write_eof()
            else:
                worker.write(b"go\n")

        def ev_hup(self, worker: Any, node: str, rc: int) -> None:
            self.outcome.output.status = rc

        def ev_close(self, worker: Any, timedout: bool) -> None:
            self.outcome.output.hung, self.over = timedout, True
            self.outcome.output.elapsed_s = time.monotonic() - self.began
            ended(self.outcome)
            more()

    class SignalPoll(EventHandler):
        def __init__(self, task: Any, workers: Mapping[str, Any]) -> None:
            self.task, self.workers, self.sent = task, workers, 0
            self.due = time.monotonic() + remote_command.ALIVE_S

        def ev_timer(self, timer: Any) -> None:
            if time.monotonic() >= self.due:
                self.due = time.monotonic() + remote_command.ALIVE_S
                self._write_all(b"alive\n")
            while self.sent < stops.due_count:
                self.sent += 1
                if self.sent < STOPS:
                    self._write_all(b"stop\n")
                    continue
                for worker in self.workers.values():
                    worker.abort()

        def _write_all(self, line: bytes) -> None:
            """Write to the commands that have begun."""
            for worker in self.workers.values():
                if worker.eh.outcome.begun and not worker.eh.over:
                    worker.write(line)

    return CommandWorker, CommandHandler, SignalPoll
