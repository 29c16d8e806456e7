"""The monitor of a run: evaluates the stop rules and collects card values for the record."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil

from envcheck.core.model import Finding, Status
from launch.run import process_tree
from launch.run.watch import RunWatch
from launch.watching import launcher_error, stacks, stop_rules, warning_rules
from launch.watching.card_sampler import CardSampler
from launch.watching.run_moment import RunMoment

JUDGE_EVERY_S = 1.0
BUSY_EVERY_S = 5.0
SOURCE_LIMIT = 1 << 20  # bytes of a script
CGROUP = Path("/sys/fs/cgroup")
FIRST_STEPS, LAST_STEPS = 10, 50


class Monitor:
    """See launch.run.launcher.RunMonitor.

    `limits` are the active rules and warnings (see `stop_rules.list_active_rules`); `sampler` is None without cards;
    `mine` are the labels of the job's cards; `show` draws the full screen.  A warning is given once, to `tell`, and
    kept in `warnings`; those in `ends` end the run.  `base` has the values that do not change during the run.
    """

    def __init__(
        self,
        limits: Mapping[str, stop_rules.Limits],
        sampler: CardSampler | None,
        logs: Path,
        mark: str,
        mine: Iterable[str] = (),
    ) -> None:
        self.mine = frozenset(mine)
        self.ends: frozenset[str] = frozenset()
        self.warnings: dict[str, Finding] = {}
        self.tell: Callable[[Finding], None] = lambda finding: None
        self.base = RunMoment(0.0, 0.0, 0.0)
        self.limits, self.sampler, self.logs, self.mark = limits, sampler, logs, mark
        self.stopped: Finding | None = None
        self.show: Callable[[RunWatch, RunMoment], None] | None = None
        self.began = time.monotonic()
        self.judged = 0.0
        self.busy: float | None = None
        self._spent: tuple[float, float] | None = None
        self._worked_at: float | None = None

    def start_sampling(self) -> None:
        """Start the clock and the sampler."""
        self.began = time.monotonic()
        if self.sampler:
            self.sampler.start_sampling()

    def close(self) -> None:
        """End the sampler."""
        if self.sampler:
            self.sampler.close()

    def must_end_run(self, watch: RunWatch) -> bool:
        """Evaluate the rules, at most once a second; return whether the run must end, with the reason in `stopped`."""
        now = time.monotonic()
        if now - self.judged < JUDGE_EVERY_S:
            return False
        self.judged = now
        self._measure_cpu(watch, now)
        self._note_living_workers(watch, now)
        state = self.build_moment(watch, now)
        if self.show:
            self.show(watch, state)
        found = stop_rules.judge_moment(state, self.limits) or self._judge_warnings(state)
        if found and found.name == "watch.stalled":
            where = stacks.dump_stacks(self._find_processes(watch), self.logs)
            found = Finding(found.name, found.status, found.seen, found.remedy, (*found.evidence, *where), found.source)
        self.stopped = found
        return found is not None

    def build_moment(self, watch: RunWatch, now: float) -> RunMoment:
        """Return the current state of the run for the rules."""
        steps = watch.steps
        window = steps if len(steps) <= FIRST_STEPS + LAST_STEPS else [*steps[:FIRST_STEPS], *steps[-LAST_STEPS:]]
        return replace(
            self.base,
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
            host_free=_host_free_share(),
            mine=self.mine,
            worked_at=self._worked_at,
            launcher_error=self._find_launcher_error(watch, now),
            rank_step_s=watch.rank_times.list_step_times(),
        )

    def _judge_warnings(self, state: RunMoment) -> Finding | None:
        """Give new warnings; return one that ends the run, if any."""
        for found in warning_rules.list_warnings(state, self.limits, self.warnings):
            name = found.name.partition(".")[2]
            self.warnings[name] = found
            if name in self.ends:
                return replace(found, status=Status.FAIL)
            self.tell(found)
        return None

    def list_card_values(self) -> dict[str, Any]:
        """Return peaks by card and the cost of sampling for the run record."""
        if not self.sampler or not self.sampler.asked:
            return {}
        s = self.sampler
        return {
            "peaks": s.peaks,
            "increase_mib": s.grown_mib(),
            "samples": s.asked,
            "failed_samples": s.failed,
            "seconds": round(s.spent_s, 1),
        }

    def _measure_cpu(self, watch: RunWatch, now: float) -> None:
        """Measure the CPU cores used since the last call, by the workers or, in a container, by the whole host."""
        if self._spent and now - self._spent[0] < BUSY_EVERY_S:
            return
        spent = _cpu_s(watch)
        if self._spent and now > self._spent[0]:
            self.busy = max(0.0, (spent - self._spent[1]) / (now - self._spent[0]))
        self._spent = (now, spent)

    def _note_living_workers(self, watch: RunWatch, now: float) -> None:
        living = watch.family.has_living_worker()
        if living is None:
            self._worked_at = None
        elif living or self._worked_at is None:
            self._worked_at = now

    def _find_launcher_error(self, watch: RunWatch, now: float) -> tuple[str, ...]:
        """Return the launcher's uncaught error if its log has stopped growing, else ()."""
        log = watch.launcher
        if log.rest or now - log.grew_at < JUDGE_EVERY_S:
            return ()
        here = isinstance(watch.family, process_tree.ProcessTree)  # sources in a container are not readable here
        return launcher_error.find_uncaught_error(log.last_lines, watch.argv, _read_source if here else lambda _: "")

    def _find_processes(self, watch: RunWatch) -> dict[int, int]:
        if isinstance(watch.family, process_tree.ProcessTree):
            return {rank: process.pid for rank, process in watch.family.alive.items() if rank not in watch.family.dead}
        return process_tree.find_workers(self.mark)


def _read_source(file: str) -> str:
    try:
        path = Path(file)
        return path.read_text("utf-8") if path.is_file() and path.stat().st_size <= SOURCE_LIMIT else ""
    except (OSError, ValueError):
        return ""


def _cpu_s(watch: RunWatch) -> float:
    if not isinstance(watch.family, process_tree.ProcessTree):
        machine = psutil.cpu_times()
        return float(machine.user + machine.nice + machine.system)
    total = 0.0
    for process in watch.family.alive.values():
        with contextlib.suppress(psutil.Error):
            times = process.cpu_times()
            total += times.user + times.system
    return total


def _host_free_share() -> float | None:
    """Return the available share of memory, of the host or of envcheck's own container, whichever is less."""
    shares = []
    with contextlib.suppress(OSError, RuntimeError):
        memory = psutil.virtual_memory()
        shares = [memory.available / memory.total] if memory.total else []
    return min([*shares, *_container_free_share()], default=None)


def _container_free_share(place: Path = CGROUP) -> list[float]:
    """Return the available share below the cgroup 2 limit ([] without one); inactive file cache is reclaimable."""
    try:
        most = int((place / "memory.max").read_text())  # "max" (no limit) raises ValueError
        held = int((place / "memory.current").read_text())
        files = re.search(r"^inactive_file (\d+)$", (place / "memory.stat").read_text(), re.MULTILINE)
        return [1 - (held - int(files[1] if files else 0)) / most] if most > 0 else []
    except (OSError, ValueError):
        return []
