"""Talks with all hosts at once: an ssh each, as the user has configured it, with the agent at its other end."""

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

from envcheck.fleet import clocks
from envcheck.fleet.collector import CONNECT_S, OPTIONS
from envcheck.fleet.peers import agent

LINE_LIMIT = 1 << 20
SAID_LIMIT = 400  # lines that are none of the agent's: a login script's, or worse
ERR_LIMIT = 4096
LOOKS = 5  # at a clock; the quickest counts


class GoneError(Exception):
    """A host that does not answer any more; its text says why."""


class Line:
    """The talk with one host."""

    def __init__(self, host: str, process: asyncio.subprocess.Process) -> None:
        self.host, self._process, self._number = host, process, 0

    async def answer(self, timeout_s: float) -> dict[str, Any]:
        """The next line of the agent's, whatever stands between."""
        assert self._process.stdout
        try:
            for _ in range(SAID_LIMIT):
                line = await asyncio.wait_for(self._process.stdout.readline(), timeout_s)
                if not line:
                    raise GoneError(await self._last_words())
                word, _, text = line.partition(b" ")
                if word == agent.MARK.encode():
                    said = json.loads(text)
                    return said if isinstance(said, dict) else {}
        except asyncio.TimeoutError:
            raise GoneError(f"no answer within {timeout_s:g} s") from None
        except (ValueError, RecursionError, OSError):
            raise GoneError("it said something that is no answer") from None
        raise GoneError("it said too much")

    async def _last_words(self) -> str:
        """ssh's last line."""
        assert self._process.stderr
        with contextlib.suppress(asyncio.TimeoutError):
            said = await asyncio.wait_for(self._process.stderr.read(ERR_LIMIT), 1)
            lines = [line for line in said.decode("utf-8", "replace").splitlines() if line.strip()]
            if lines:
                return lines[-1][:200]
        return "the connection broke off"

    async def ask(self, do: str, *words: Any, timeout_s: float) -> Any:
        """What the agent answers; GoneError, also where it could not do it."""
        assert self._process.stdin
        self._number += 1
        try:
            self._process.stdin.write(json.dumps({"id": self._number, "do": do, "with": words}).encode() + b"\n")
            await self._process.stdin.drain()
        except (OSError, RuntimeError):
            raise GoneError(await self._last_words()) from None
        said = await self.answer(timeout_s)
        if said.get("id") != self._number:
            raise GoneError("it answered another question")
        return said

    async def offset(self) -> clocks.Offset:
        """Of its clock to ours: the sharpest of some looks."""
        seen = []
        for _ in range(LOOKS):
            sent = time.time()
            said = await self.ask("clock", timeout_s=10)
            there = said.get("answer")
            if not isinstance(there, float) or not 0 < there < 1e11:
                raise GoneError("its clock says no time")
            seen.append(clocks.of(there, sent, time.time()))
        best = seen[0]
        for one in seen[1:]:
            best = clocks.sharper(best, one)
        return best


def command() -> str:
    """For any login shell, as the collector's; the agent's text is small enough to stand in it."""
    here = Path(__file__).parent
    parts = (here.joinpath(name).read_bytes() for name in ("agent_rdma.py", "agent.py"))
    packed = base64.b64encode(zlib.compress(b"\0".join(parts), 9)).decode()
    # A loop of a comprehension, since a command in one line has no other; Python 3.8 gives it names of its own.
    each = f'[exec(t,globals()) for t in zlib.decompress(base64.b64decode("{packed}")).split(b"\\0")]'
    program = f"import base64,zlib;{each}"
    escaped = program.replace('"', '\\"')
    script = f'exec python3 -I -S -c "{escaped}"'
    return f"exec /bin/sh -c {shlex.quote(script)}"


@contextlib.asynccontextmanager
async def opened(
    hosts: Sequence[str], fanout: int, deadline_s: float
) -> AsyncIterator[tuple[dict[str, Line], dict[str, str]]]:
    """host → its line, and host → why it has none.  However this ends, no ssh outlives it."""
    started: list[asyncio.subprocess.Process] = []
    gate, text = asyncio.Semaphore(fanout), command()

    async def one(host: str) -> Line:
        async with gate:
            process = await asyncio.create_subprocess_exec(
                *("ssh", *shlex.split(OPTIONS), "-oBatchMode=yes", f"-oConnectTimeout={CONNECT_S}", host, text),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                limit=LINE_LIMIT,
            )
            started.append(process)
            line = Line(host, process)
            await line.answer(deadline_s)
            return line

    try:
        answers = await asyncio.gather(*(one(host) for host in hosts), return_exceptions=True)
        lines, gone = {}, {}
        for host, said in zip(hosts, answers, strict=True):
            if isinstance(said, Line):
                lines[host] = said
            elif isinstance(said, GoneError):
                gone[host] = str(said)
            else:
                raise said
        yield lines, gone
    finally:
        for process in started:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
        await asyncio.gather(*(process.wait() for process in started), return_exceptions=True)
