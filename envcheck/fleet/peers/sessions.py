"""Sessions with all hosts at once: one ssh each, with the user's configuration and the agent at the other end."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import shlex
import time
import zlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

from envcheck.core.messages import Message, _, verbatim
from envcheck.fleet import clocks
from envcheck.fleet.collector import CONNECT_S, OPTIONS
from envcheck.fleet.peers import agent

LINE_LIMIT = 1 << 20
FOREIGN_LINES_LIMIT = 400  # lines not from the agent, such as those of login scripts
ERR_LIMIT = 4096
LOOKS = 5  # readings of a clock; the fastest counts


class HostGoneError(Exception):
    """A host no longer responds; `reason` says why."""

    def __init__(self, reason: Message) -> None:
        super().__init__(reason)
        self.reason = reason


class AgentSession:
    """The session with one host."""

    def __init__(self, host: str, process: asyncio.subprocess.Process) -> None:
        self.host, self._process, self._number = host, process, 0

    async def read_answer(self, timeout_s: float) -> dict[str, Any]:
        """Return the agent's next answer; other lines are skipped."""
        assert self._process.stdout
        try:
            for _unused in range(FOREIGN_LINES_LIMIT):
                line = await asyncio.wait_for(self._process.stdout.readline(), timeout_s)
                if not line:
                    raise HostGoneError(await self._read_last_words())
                word, _blank, text = line.partition(b" ")
                if word == agent.MARK.encode():
                    answer = json.loads(text)
                    return answer if isinstance(answer, dict) else {}
        except asyncio.TimeoutError:
            raise HostGoneError(_("no response within {timeout_s:g} s", timeout_s=timeout_s)) from None
        except (ValueError, RecursionError, OSError):
            raise HostGoneError(_("invalid response")) from None
        raise HostGoneError(_("response too large"))

    async def _read_last_words(self) -> Message:
        """Return ssh's last line of standard error."""
        assert self._process.stderr
        with contextlib.suppress(asyncio.TimeoutError):
            answer = await asyncio.wait_for(self._process.stderr.read(ERR_LIMIT), 1)
            lines = [line for line in answer.decode("utf-8", "replace").splitlines() if line.strip()]
            if lines:
                return verbatim(lines[-1][:200])
        return _("connection lost")

    async def ask_agent(self, do: str, *words: Any, timeout_s: float) -> Any:
        """Return the agent's answer.  HostGoneError also if the agent reports a failure."""
        assert self._process.stdin
        self._number += 1
        try:
            self._process.stdin.write(json.dumps({"id": self._number, "do": do, "with": words}).encode() + b"\n")
            await self._process.stdin.drain()
        except (OSError, RuntimeError):
            raise HostGoneError(await self._read_last_words()) from None
        answer = await self.read_answer(timeout_s)
        if answer.get("id") != self._number:
            raise HostGoneError(_("response does not match the request"))
        return answer

    async def measure_offset(self) -> clocks.ClockOffset:
        """Return the clock offset with the narrowest bounds of several readings."""
        seen = []
        for _unused in range(LOOKS):
            sent = time.time()
            answer = await self.ask_agent("clock", timeout_s=10)
            there = answer.get("answer")
            if not isinstance(there, float) or not 0 < there < 1e11:
                raise HostGoneError(_("its clock returned no time"))
            seen.append(clocks.compute_offset(there, sent, time.time()))
        best = seen[0]
        for one in seen[1:]:
            best = clocks.choose_sharper(best, one)
        return best


def render_command() -> str:
    """Return the command for any login shell, like the collector's; it contains the agent's compressed text."""
    here = Path(__file__).parent
    parts = (here.joinpath(name).read_bytes() for name in ("agent_rdma.py", "agent.py"))
    packed = base64.b64encode(zlib.compress(b"\0".join(parts), 9)).decode()
    # A comprehension is the only loop on one line; globals(), because it has its own scope in Python 3.8.
    each = f'[exec(t,globals()) for t in zlib.decompress(base64.b64decode("{packed}")).split(b"\\0")]'
    program = f"import base64,zlib;{each}"
    escaped = program.replace('"', '\\"')
    script = f'exec python3 -I -S -c "{escaped}"'
    return f"exec /bin/sh -c {shlex.quote(script)}"


@contextlib.asynccontextmanager
async def open_sessions(
    hosts: Sequence[str], fanout: int, deadline_s: float
) -> AsyncIterator[tuple[dict[str, AgentSession], dict[str, Message]]]:
    """Yield the session of each host, and why others have none.  No ssh process outlives this."""
    started: list[asyncio.subprocess.Process] = []
    gate, text = asyncio.Semaphore(fanout), render_command()

    async def one(host: str) -> AgentSession:
        async with gate:
            process = await asyncio.create_subprocess_exec(
                *("ssh", *shlex.split(OPTIONS), "-oBatchMode=yes", f"-oConnectTimeout={CONNECT_S}", host, text),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                limit=LINE_LIMIT,
            )
            started.append(process)
            line = AgentSession(host, process)
            await line.read_answer(deadline_s)
            return line

    try:
        answers = await asyncio.gather(*(one(host) for host in hosts), return_exceptions=True)
        lines: dict[str, AgentSession] = {}
        gone: dict[str, Message] = {}
        for host, answer in zip(hosts, answers, strict=True):
            if isinstance(answer, AgentSession):
                lines[host] = answer
            elif isinstance(answer, HostGoneError):
                gone[host] = answer.reason
            else:
                raise answer
        yield lines, gone
    finally:
        for process in started:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
        await asyncio.gather(*(process.wait() for process in started), return_exceptions=True)
