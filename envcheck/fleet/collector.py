"""Collect answers from many hosts in parallel: the user's OpenSSH through ClusterShell, which is imported late.

Host keys are verified and passwords never asked for (BatchMode).  Each host has its own deadline from the start of its
ssh; no ssh process outlives this, however it ends.
"""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from envcheck.collect.question_queue import QuestionQueue, redact_answers
from envcheck.core.errors import UsageError
from envcheck.core.messages import _
from envcheck.core.model import Question
from envcheck.core.signals import defer_signals
from envcheck.fleet.output import BYTES_LIMIT, LINES_LIMIT, HostOutput
from envcheck.payload import remote_collector

CONNECT_S = 10
LOOK_EVERY_S = 0.1  # interval of checks for Ctrl-C: ClusterShell must not be interrupted inside a step
# Only what a remote check must not do; all else follows the user's ssh configuration.
OPTIONS = "-T -oClearAllForwardings=yes -oPermitLocalCommand=no"


@dataclass(frozen=True)
class CollectRequest:
    """What to collect from each host: facts of `device`, and the `more` questions of a site."""

    device: str = "auto"
    more: tuple[Question, ...] = ()
    fanout: int = 64
    deadline_s: float = 120.0


def silence_clustershell() -> None:
    """Silence ClusterShell's broken-pipe warnings: a host that closes early is a finding of that host."""
    logging.getLogger("ClusterShell").setLevel(logging.CRITICAL)


def ask_hosts(hosts: Sequence[str], errand: CollectRequest, done: Callable[[HostOutput], None]) -> None:
    """Collect from all hosts; `done` gets each host's output once, as soon as it has finished."""
    if not shutil.which("ssh"):
        raise UsageError(
            _("--hosts requires ssh, but ssh is not installed on this machine"), _("install the OpenSSH client")
        )
    from ClusterShell.Task import task_self, task_terminate

    silence_clustershell()
    task = task_self()
    for stream in ("stdout", "stderr"):
        task.set_default(f"{stream}_msgtree", False)  # keep output in HostOutput only
    task.set_info("fanout", errand.fanout)
    task.set_info("connect_timeout", min(CONNECT_S, max(1, int(errand.deadline_s / 2))))
    task.set_info("ssh_options", OPTIONS)
    worker_class, handler_class, look_class = _define_handlers()
    program = remote_collector.render_program(errand.deadline_s)
    command = remote_collector.render_command(len(program))
    try:
        with defer_signals() as deliver:
            for host in hosts:
                handler = handler_class(HostOutput(host), QuestionQueue(errand.device, errand.more), program, done)
                task.schedule(
                    worker_class(host, handler=handler, timeout=errand.deadline_s, command=command, stderr=True)
                )
            task.timer(LOOK_EVERY_S, look_class(deliver), interval=LOOK_EVERY_S, autoclose=True)
            task.run()
    except BaseException:  # including Ctrl-C
        task.abort(kill=True)
        raise
    finally:
        task_terminate()


def _define_handlers() -> tuple[Any, Any, Any]:
    """Return ClusterShell's worker with a limit on output, the dialogue with one host, and the poll for Ctrl-C."""
    from ClusterShell.Event import EventHandler
    from ClusterShell.Worker.EngineClient import EngineClientEOF
    from ClusterShell.Worker.Ssh import SshClient, WorkerSsh

    class QuestionClient(SshClient):
        taken = 0

        def _read(self, sname: str, size: int = 65536) -> bytes:
            data: bytes = super()._read(sname, size)
            self.taken += len(data)
            if self.taken > BYTES_LIMIT or self.worker.eh.output.lines > LINES_LIMIT:
                self.worker.eh.output.flood = True
                self.worker.abort()
                raise EngineClientEOF
            return data

    class QuestionWorker(WorkerSsh):
        SHELL_CLASS = QuestionClient

    class AnswerHandler(EventHandler):
        """Send the program, then questions as answers enable them; closing the input ends the program."""

        def __init__(
            self, output: HostOutput, interview: QuestionQueue, program: bytes, done: Callable[[HostOutput], None]
        ) -> None:
            self.output, self.interview, self.program, self.done = output, interview, program, done

        def ev_start(self, worker: Any) -> None:
            self.began, self.output.began_at = time.monotonic(), time.time()
            worker.write(self.program)
            self.send_questions(worker, self.interview.list_first_questions())

        def send_questions(self, worker: Any, questions: Sequence[Question]) -> None:
            self.output.longest_s = self.interview.longest_s
            worker.write(remote_collector.render_questions(questions))

        def ev_read(self, worker: Any, node: str, sname: str, msg: bytes) -> None:
            if sname == "stderr":
                self.output.add_error_line(msg)
                return
            word, answer = self.output.add_output_line(msg)
            if word or answer is not None:
                self.output.heard_s = time.monotonic() - self.began
            if self.output.unreadable:
                worker.abort()
            if answer is None or self.output.answers is not None:
                return
            opened = self.interview.add_answer(answer)
            if opened:
                self.send_questions(worker, opened)
            if self.interview.is_over:
                self.output.answers = redact_answers(self.interview.answers)
                worker.set_write_eof()

        def ev_hup(self, worker: Any, node: str, rc: int) -> None:
            self.output.status = rc

        def ev_close(self, worker: Any, timedout: bool) -> None:
            self.output.hung = timedout
            self.output.elapsed_s = time.monotonic() - self.began
            self.done(self.output)

    class StopPoll(EventHandler):
        def __init__(self, deliver: Callable[[], None]) -> None:
            self.deliver = deliver

        def ev_timer(self, timer: Any) -> None:
            self.deliver()

    return QuestionWorker, AnswerHandler, StopPoll
