"""A command of envcheck on many hosts at once, each with its own words: lines as they come, and how each ended.

Over OpenSSH by ClusterShell, as `asking`, but without a deadline: a dead host is noticed since it answers ssh's own
signs of life no more.  Ctrl-C here is one there; the third leaves them at once.
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
from envcheck.core.model import Finding
from envcheck.core.signals import heard_by, mute
from envcheck.fleet import collector, connectivity
from envcheck.fleet.output import BYTES_LIMIT, HostOutput
from envcheck.payload import pyz, remote_command
from envcheck.payload.content import Payload
from envcheck.payload.remote_collector import MARK
from envcheck.payload.remote_command import Word
from envcheck.payload.unpack import ATTACHMENTS, PYZ

# A minute without any answer: the host, or the way to it, is gone.
ALIVE = "-oServerAliveInterval=15 -oServerAliveCountMax=4"
OUT_LIMIT = BYTES_LIMIT  # of a document; of lines that are only passed on there is no limit but a line's
UNBROKEN_LIMIT = 1 << 20  # bytes without an end of line
STOPS = 3
UNBEGUN = "not-begun"  # as a host says it that was told to stop before
LOOK_EVERY_S = 0.2
_MARK = MARK.encode() + b" "
_CODE = re.compile(r"-?[0-9]{1,3}")

Hear = Callable[[str, str], None]  # host, line of its standard error


@dataclass
class Did:
    """How a host's command ended: `code` is None where that is not known; `last` are its newest words on stderr."""

    host: str
    said: HostOutput
    code: int | None = None
    begun: bool = False
    out: list[str] = field(default_factory=list)
    last: list[str] = field(default_factory=list)
    size: int = 0

    @property
    def text(self) -> str:
        return "\n".join(self.out)

    @property
    def unbegun(self) -> bool:
        """It was to stop before it had begun."""
        return [word.strip() for word in self.said.words[-1:]] == [UNBEGUN]

    @property
    def why(self) -> Finding:
        """Of a host whose command did not end by itself."""
        return connectivity.broken(self.said)


@dataclass(frozen=True)
class Order:
    """`words` are each host's; `carried` are files of this side that they name.

    `together`: they wait for each other, so all of them go on at once; `fanout` counts those that have not begun yet.
    """

    words: Mapping[str, Sequence[Word]]
    carried: Payload | None = None
    fanout: int = 64
    deadline_s: float | None = None
    forget: bool = False
    together: bool = False

    @property
    def payloads(self) -> dict[str, Payload]:
        return {PYZ: pyz.build()} | ({ATTACHMENTS: self.carried} if self.carried else {})


class Stops:
    """Ctrl-C, SIGTERM and a closed terminal, counted; `later` asks for stops by ourselves."""

    def __init__(self) -> None:
        self.count = 0
        self._later: list[float] = []

    def later(self, *after_s: float) -> None:
        """Once, however often it is asked for."""
        self._later = self._later or [time.monotonic() + seconds for seconds in after_s]

    def __call__(self, number: int, _frame: object) -> None:
        if number == signal.SIGHUP:
            mute()
        self.count += 1

    @property
    def due(self) -> int:
        return max(self.count, sum(time.monotonic() >= when for when in self._later))


def exit_code(text: str) -> int | None:
    """As a host says it; None for what is no program's."""
    return int(text) if _CODE.fullmatch(text) else None


def do(
    order: Order, hear: Hear, ended: Callable[[Did], None] = lambda did: None, stops: Stops | None = None
) -> list[Did]:
    """All hosts, in the order of `order.words`; `ended` is told of each as it ends."""
    if not shutil.which("ssh"):
        raise UsageError("there is no ssh here, which --hosts goes through", "install the OpenSSH client")
    from ClusterShell.Task import task_self, task_terminate

    collector.quiet()
    stops, payloads = stops or Stops(), order.payloads
    did = {host: Did(host, HostOutput(host)) for host in order.words}
    task = task_self()
    for stream in ("stdout", "stderr"):
        task.set_default(f"{stream}_msgtree", False)
    task.set_info("fanout", len(order.words) if order.together else order.fanout)
    task.set_info("connect_timeout", collector.CONNECT_S)
    task.set_info("ssh_options", f"{collector.OPTIONS} {ALIVE}")
    if shutil.which("setsid"):  # a terminal's Ctrl-C goes to all of its group: ssh would end before it can pass it on
        task.set_info("ssh_path", "setsid ssh")
    workers: dict[str, Any] = {}
    rest = list(order.words)[::-1]

    def more() -> None:
        """The next ones; none once they are to end."""
        while rest and not stops.due and not (order.together and _beginning(workers) >= order.fanout):
            host = rest.pop()
            line = remote_command.command(payloads, order.words[host], order.forget)
            own = {"handler": talk_class(did[host]), "timeout": order.deadline_s, "command": line, "stderr": True}
            workers[host] = worker_class(host, **own)
            task.schedule(workers[host])

    worker_class, talk_class, timer_class = _classes(payloads, hear, ended, stops, more)
    try:
        with heard_by(stops):
            more()
            task.timer(LOOK_EVERY_S, timer_class(task, workers), interval=LOOK_EVERY_S, autoclose=True)
            task.run()
    except BaseException:
        task.abort(kill=True)
        raise
    finally:
        task_terminate()
    for host in rest[::-1]:
        did[host].said.words.append(UNBEGUN)
        ended(did[host])
    return list(did.values())


def _beginning(workers: Mapping[str, Any]) -> int:
    """How many have neither begun nor ended."""
    return sum(not (worker.eh.did.begun or worker.eh.over) for worker in workers.values())


def _classes(
    payloads: Mapping[str, Payload], hear: Hear, ended: Callable[[Did], None], stops: Stops, more: Callable[[], None]
) -> tuple[Any, Any, Any]:
    """ClusterShell's worker with a bound on a line, the talk with one host, and the look for a Ctrl-C."""
    from ClusterShell.Event import EventHandler
    from ClusterShell.Worker.EngineClient import EngineClientEOF
    from ClusterShell.Worker.Ssh import SshClient, WorkerSsh

    class Client(SshClient):
        unbroken = 0

        def _read(self, sname: str, size: int = 65536) -> bytes:
            data: bytes = super()._read(sname, size)
            self.unbroken = len(data) - data.rfind(b"\n") if b"\n" in data else self.unbroken + len(data)
            if self.unbroken > UNBROKEN_LIMIT or self.worker.eh.did.size > OUT_LIMIT:
                self.worker.eh.did.said.flood = True
                self.worker.abort()
                raise EngineClientEOF
            return data

    class Worker(WorkerSsh):
        SHELL_CLASS = Client

    class Talk(EventHandler):
        def __init__(self, did: Did) -> None:
            self.did, self.over = did, False

        def ev_start(self, worker: Any) -> None:
            self.began = time.monotonic()

        def ev_read(self, worker: Any, node: str, sname: str, msg: bytes) -> None:
            if sname == "stderr":
                self.did.said.err_line(msg)
            elif not msg.startswith(_MARK):
                self.did.said.out_line(msg)
            else:
                word, _, rest = msg[len(_MARK) :].partition(b" ")
                self._word(worker, word, rest.decode("utf-8", "replace"))

        def _word(self, worker: Any, word: bytes, rest: str) -> None:
            did = self.did
            if word == b"out":
                did.size += len(rest)
                did.out.append(rest)
            elif word == b"err":
                did.last = [*did.last, rest[:4096]][-12:]
                hear(did.host, rest[:4096])
            elif word == b"exit":
                did.code = exit_code(rest)
            else:
                did.said.out_line(_MARK + word + b" " + rest.encode())
                did.begun = did.begun or word == b"begun"
                more()
                if word == b"want" and len(did.said.words) == 1:  # once, however often it asks
                    self._give(worker, rest.split())

        def _give(self, worker: Any, wanted: list[str]) -> None:
            for name, payload in payloads.items():
                if name in wanted:
                    worker.write(payload.data)
            if stops.due:
                worker.set_write_eof()
            else:
                worker.write(b"go\n")

        def ev_hup(self, worker: Any, node: str, rc: int) -> None:
            self.did.said.status = rc

        def ev_close(self, worker: Any, timedout: bool) -> None:
            self.did.said.hung, self.over = timedout, True
            self.did.said.elapsed_s = time.monotonic() - self.began
            ended(self.did)
            more()

    class Look(EventHandler):
        def __init__(self, task: Any, workers: Mapping[str, Any]) -> None:
            self.task, self.workers, self.told = task, workers, 0

        def ev_timer(self, timer: Any) -> None:
            while self.told < stops.due:
                self.told += 1
                for worker in self.workers.values():
                    if self.told >= STOPS:
                        worker.abort()
                    elif worker.eh.did.begun and not worker.eh.over:
                        worker.write(b"stop\n")

    return Worker, Talk, Look
