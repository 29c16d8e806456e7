"""Asking many hosts at once: OpenSSH as the user has configured it, through ClusterShell, which is imported late.

Keys are checked and nobody is asked for a password (BatchMode).  Each host has its own deadline, from when its ssh
starts; however this ends, no ssh outlives it.
"""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from envcheck.collect.interview import Interview, redact_answers
from envcheck.core.errors import UsageError
from envcheck.core.model import Question
from envcheck.core.signals import held
from envcheck.fleet.output import BYTES_LIMIT, LINES_LIMIT, HostOutput
from envcheck.payload import remote_collector

CONNECT_S = 10
LOOK_EVERY_S = 0.1  # for a Ctrl-C: ClusterShell's own steps are not to be broken off
# Nothing of the user's configuration but what a look from afar must not do.
OPTIONS = "-T -oClearAllForwardings=yes -oPermitLocalCommand=no"


@dataclass(frozen=True)
class CollectRequest:
    """What is asked of every host: of its cards of `device`, and `more`, which a site adds."""

    device: str = "auto"
    more: tuple[Question, ...] = ()
    fanout: int = 64
    deadline_s: float = 120.0


def quiet() -> None:
    """A host that ends without listening is a finding of that host, not ClusterShell's warning of a broken pipe."""
    logging.getLogger("ClusterShell").setLevel(logging.CRITICAL)


def ask(hosts: Sequence[str], errand: CollectRequest, done: Callable[[HostOutput], None]) -> None:
    """`done` is told of each host once, as soon as it has ended."""
    if not shutil.which("ssh"):
        raise UsageError("there is no ssh here, which --hosts goes through", "install the OpenSSH client")
    from ClusterShell.Task import task_self, task_terminate

    quiet()
    task = task_self()
    for stream in ("stdout", "stderr"):
        task.set_default(f"{stream}_msgtree", False)  # nothing is kept here but what HostOutput keeps
    task.set_info("fanout", errand.fanout)
    task.set_info("connect_timeout", min(CONNECT_S, max(1, int(errand.deadline_s / 2))))
    task.set_info("ssh_options", OPTIONS)
    worker_class, handler_class, look_class = _classes()
    program = remote_collector.render_program(errand.deadline_s)
    command = remote_collector.render_command(len(program))
    try:
        with held() as deliver:
            for host in hosts:
                handler = handler_class(HostOutput(host), Interview(errand.device, errand.more), program, done)
                task.schedule(
                    worker_class(host, handler=handler, timeout=errand.deadline_s, command=command, stderr=True)
                )
            task.timer(LOOK_EVERY_S, look_class(deliver), interval=LOOK_EVERY_S, autoclose=True)
            task.run()
    except BaseException:  # Ctrl-C included
        task.abort(kill=True)
        raise
    finally:
        task_terminate()


def _classes() -> tuple[Any, Any, Any]:
    """ClusterShell's worker with a bound on what a host may send, the talk with one host, and the look for a Ctrl-C."""
    from ClusterShell.Event import EventHandler
    from ClusterShell.Worker.EngineClient import EngineClientEOF
    from ClusterShell.Worker.Ssh import SshClient, WorkerSsh

    class Client(SshClient):
        taken = 0

        def _read(self, sname: str, size: int = 65536) -> bytes:
            data: bytes = super()._read(sname, size)
            self.taken += len(data)
            if self.taken > BYTES_LIMIT or self.worker.eh.output.lines > LINES_LIMIT:
                self.worker.eh.output.flood = True
                self.worker.abort()
                raise EngineClientEOF
            return data

    class Worker(WorkerSsh):
        SHELL_CLASS = Client

    class Talk(EventHandler):
        """The program goes first, then questions as answers open them; the end of the input ends it there."""

        def __init__(
            self, output: HostOutput, interview: Interview, program: bytes, done: Callable[[HostOutput], None]
        ) -> None:
            self.output, self.interview, self.program, self.done = output, interview, program, done

        def ev_start(self, worker: Any) -> None:
            self.began, self.output.began_at = time.monotonic(), time.time()
            worker.write(self.program + remote_collector.render_questions(self.interview.begin()))

        def ev_read(self, worker: Any, node: str, sname: str, msg: bytes) -> None:
            if sname == "stderr":
                self.output.err_line(msg)
                return
            answer = self.output.out_line(msg)[1]
            if self.output.unreadable:
                worker.abort()
            if answer is None or self.output.answers is not None:
                return
            opened = self.interview.add(answer)
            if opened:
                worker.write(remote_collector.render_questions(opened))
            if self.interview.is_over:
                self.output.answers = redact_answers(self.interview.answers)
                worker.set_write_eof()

        def ev_hup(self, worker: Any, node: str, rc: int) -> None:
            self.output.status = rc

        def ev_close(self, worker: Any, timedout: bool) -> None:
            self.output.hung = timedout
            self.output.elapsed_s = time.monotonic() - self.began
            self.done(self.output)

    class Look(EventHandler):
        def __init__(self, deliver: Callable[[], None]) -> None:
            self.deliver = deliver

        def ev_timer(self, timer: Any) -> None:
            self.deliver()

    return Worker, Talk, Look
