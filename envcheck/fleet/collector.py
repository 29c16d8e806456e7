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

from envcheck.core.errors import UsageError
from envcheck.core.signals import held
from envcheck.fleet import output as said

CONNECT_S = 10
LOOK_EVERY_S = 0.1  # for a Ctrl-C: ClusterShell's own steps are not to be broken off
# Nothing of the user's configuration but what a look from afar must not do.
OPTIONS = "-T -oClearAllForwardings=yes -oPermitLocalCommand=no"


@dataclass(frozen=True)
class Errand:
    """What is asked of every host: the command, and the file that it may want on its standard input."""

    command: str
    parcel: bytes
    fanout: int = 64
    deadline_s: float = 120.0


def quiet() -> None:
    """A host that ends without listening is a finding of that host, not ClusterShell's warning of a broken pipe."""
    logging.getLogger("ClusterShell").setLevel(logging.CRITICAL)


def ask(hosts: Sequence[str], errand: Errand, done: Callable[[said.Said], None]) -> None:
    """`done` is told of each host once, as soon as it has ended."""
    if not shutil.which("ssh"):
        raise UsageError("there is no ssh here, which --hosts goes through", "install the OpenSSH client")
    from ClusterShell.Task import task_self, task_terminate

    quiet()
    task = task_self()
    for stream in ("stdout", "stderr"):
        task.set_default(f"{stream}_msgtree", False)  # nothing is kept here but what `Said` keeps
    task.set_info("fanout", errand.fanout)
    task.set_info("connect_timeout", min(CONNECT_S, max(1, int(errand.deadline_s / 2))))
    task.set_info("ssh_options", OPTIONS)
    worker_class, handler_class, look_class = _classes()
    try:
        with held() as deliver:
            for host in hosts:
                handler = handler_class(said.Said(host), errand, done)
                task.schedule(
                    worker_class(host, handler=handler, timeout=errand.deadline_s, command=errand.command, stderr=True)
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
            if self.taken > said.BYTES_LIMIT or self.worker.eh.said.lines > said.LINES_LIMIT:
                self.worker.eh.said.flood = True
                self.worker.abort()
                raise EngineClientEOF
            return data

    class Worker(WorkerSsh):
        SHELL_CLASS = Client

    class Talk(EventHandler):
        def __init__(self, said: said.Said, errand: Errand, done: Callable[[said.Said], None]) -> None:
            self.said, self.errand, self.done = said, errand, done
            self.answered = False

        def ev_start(self, worker: Any) -> None:
            self.began, self.said.began_at = time.monotonic(), time.time()

        def ev_read(self, worker: Any, node: str, sname: str, msg: bytes) -> None:
            if sname == "stderr":
                self.said.err_line(msg)
                return
            word = self.said.out_line(msg)
            if word in ("want", "have") and not self.answered:  # once, however often it asks
                self.answered = True
                if word == "want":
                    worker.write(self.errand.parcel)
                worker.set_write_eof()

        def ev_hup(self, worker: Any, node: str, rc: int) -> None:
            self.said.status = rc

        def ev_close(self, worker: Any, timedout: bool) -> None:
            self.said.hung = timedout
            self.said.elapsed_s = time.monotonic() - self.began
            self.done(self.said)

    class Look(EventHandler):
        def __init__(self, deliver: Callable[[], None]) -> None:
            self.deliver = deliver

        def ev_timer(self, timer: Any) -> None:
            self.deliver()

    return Worker, Talk, Look
