"""The monitor of a run: puts the moment together for the stop rules, and keeps what the run record tells of cards."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import psutil

from envcheck.core.model import Finding
from launch.run import process_tree
from launch.run.watch import Watch
from launch.watching import launcher_error, rules, stacks
from launch.watching.cards import Sampler
from launch.watching.state import RunMoment

JUDGE_EVERY_S = 1.0
BUSY_EVERY_S = 5.0
SOURCE_LIMIT = 1 << 20  # bytes of a script
CGROUP = Path("/sys/fs/cgroup")
FIRST_STEPS, LAST_STEPS = 10, 50


class Monitor:
    """`limits` are the rules in force, of `rules.in_force`; without a sampler nothing is known of cards; `mine` are the
    labels of the job's own."""

    def __init__(
        self,
        limits: Mapping[str, rules.Limits],
        sampler: Sampler | None,
        logs: Path,
        mark: str,
        mine: Iterable[str] = (),
    ) -> None:
        self.mine = frozenset(mine)
        self.limits, self.sampler, self.logs, self.mark = limits, sampler, logs, mark
        self.stopped: Finding | None = None
        self.show: Callable[[Watch, RunMoment], None] | None = None
        self.began = time.monotonic()
        self.judged = 0.0
        self.busy: float | None = None
        self._spent: tuple[float, float] | None = None
        self._worked_at: float | None = None

    def start(self) -> None:
        self.began = time.monotonic()
        if self.sampler:
            self.sampler.start()

    def close(self) -> None:
        if self.sampler:
            self.sampler.close()

    def check(self, watch: Watch) -> bool:
        """Whether the run must end; `stopped` then says why.  Cheap when called often."""
        now = time.monotonic()
        if now - self.judged < JUDGE_EVERY_S:
            return False
        self.judged = now
        self._measure(watch, now)
        self._workers(watch, now)
        state = self.state(watch, now)
        if self.show:
            self.show(watch, state)
        found = rules.judge(state, self.limits)
        if found and found.name == "watch.stalled":
            where = stacks.dump(self._processes(watch), self.logs)
            found = Finding(found.name, found.status, found.seen, found.remedy, (*found.evidence, *where), found.source)
        self.stopped = found
        return found is not None

    def state(self, watch: Watch, now: float) -> RunMoment:
        steps = watch.steps
        window = steps if len(steps) <= FIRST_STEPS + LAST_STEPS else [*steps[:FIRST_STEPS], *steps[-LAST_STEPS:]]
        return RunMoment(
            now=now,
            began_at=self.began,
            grew_at=max(self.began, watch.grew_at),
            steps=tuple(window),
            marks=tuple(watch.marks),
            first_step_at=watch.first_step_at,
            stepped_at=watch.stepped_at,
            before=self.sampler.before if self.sampler else None,
            samples=self.sampler.latest if self.sampler else (),
            busy_cores=self.busy,
            host_free=_host_free(),
            mine=self.mine,
            worked_at=self._worked_at,
            fallen=self._fallen(watch, now),
        )

    def cards(self) -> dict[str, Any]:
        """For the run record: the peaks of each card, and what it took to know them."""
        if not self.sampler or not self.sampler.asked:
            return {}
        s = self.sampler
        return {
            "peaks": s.peaks,
            "grown_mib": s.grown_mib(),
            "samples": s.asked,
            "untold": s.untold,
            "seconds": round(s.spent_s, 1),
        }

    def _measure(self, watch: Watch, now: float) -> None:
        """How many processors were kept busy since the last look: by the workers, or by all where they are not seen."""
        if self._spent and now - self._spent[0] < BUSY_EVERY_S:
            return
        spent = _cpu_s(watch)
        if self._spent and now > self._spent[0]:
            self.busy = max(0.0, (spent - self._spent[1]) / (now - self._spent[0]))
        self._spent = (now, spent)

    def _workers(self, watch: Watch, now: float) -> None:
        living = watch.family.living()
        if living is None:
            self._worked_at = None
        elif living or self._worked_at is None:
            self._worked_at = now

    def _fallen(self, watch: Watch, now: float) -> tuple[str, ...]:
        """Of a log that rests: what still grows needs not be read."""
        log = watch.launcher
        if log.rest or now - log.grew_at < JUDGE_EVERY_S:
            return ()
        here = isinstance(watch.family, process_tree.ProcessTree)  # of a container's script this host knows nothing
        return launcher_error.uncaught(log.last, watch.argv, _source if here else lambda _: "")

    def _processes(self, watch: Watch) -> dict[int, int]:
        if isinstance(watch.family, process_tree.ProcessTree):
            return {rank: process.pid for rank, process in watch.family.alive.items() if rank not in watch.family.dead}
        return process_tree.ranks(self.mark)


def _source(file: str) -> str:
    try:
        path = Path(file)
        return path.read_text("utf-8") if path.is_file() and path.stat().st_size <= SOURCE_LIMIT else ""
    except (OSError, ValueError):
        return ""


def _cpu_s(watch: Watch) -> float:
    if not isinstance(watch.family, process_tree.ProcessTree):
        machine = psutil.cpu_times()
        return float(machine.user + machine.nice + machine.system)
    total = 0.0
    for process in watch.family.alive.values():
        with contextlib.suppress(psutil.Error):
            times = process.cpu_times()
            total += times.user + times.system
    return total


def _host_free() -> float | None:
    """The part of memory that can still be had: of the machine, or of the container around us where that is less."""
    shares = []
    with contextlib.suppress(OSError, RuntimeError):
        memory = psutil.virtual_memory()
        shares = [memory.available / memory.total] if memory.total else []
    return min([*shares, *_of_container()], default=None)


def _of_container(place: Path = CGROUP) -> list[float]:
    """Of control groups' second version; what files hold in memory can be had back."""
    try:
        most = int((place / "memory.max").read_text())  # "max" is no number: no limit
        held = int((place / "memory.current").read_text())
        files = re.search(r"^inactive_file (\d+)$", (place / "memory.stat").read_text(), re.MULTILINE)
        return [1 - (held - int(files[1] if files else 0)) / most] if most > 0 else []
    except (OSError, ValueError):
        return []
