"""What doctor judges: the facts of this machine or of a recording, and the job that was named, resolved for it."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

QUICK_S = 0.3  # a machine's tools answer in this time, or wait for their driver and leave a processor idle
NAMING = ("model", "method", "framework", "variant", "node_role")  # any of these options names a job

if TYPE_CHECKING:
    from envcheck.core.facts import Facts
    from envcheck.job.job import Job
    from envcheck.job.request import JobRequest
    from envcheck.settings.site_settings import Settings


@dataclass(frozen=True)
class ExaminedMachine:
    """`facts` with what the job demands; `job` is None where none was named."""

    facts: Facts
    job: Job | None = None


def gathered(asked: dict[str, Any], site: Settings) -> ExaminedMachine:
    """What the machine or the recording says, and the named job as that machine would run it."""
    from envcheck.collect import facts, machine
    from envcheck.report import screen

    refuse_unknown(asked)
    if asked["replay"]:
        found = replayed(asked["replay"], asked["device"])
    else:
        words = "" if asked["watch"] else "asking the machine ..."
        with screen.hint(words), _meanwhile():
            found = facts.gather(machine.here(), asked["device"], more=site.questions)
        if _is_job_named(asked):
            from envcheck.job.here import add_own_places

            found = add_own_places(found, request_of(asked))
    return completed(asked, site, found)


@contextlib.contextmanager
def _meanwhile() -> Iterator[None]:
    """While slow tools are at work, getting ready to judge; quick ones would wait for it."""
    import threading

    getting_ready = threading.Timer(QUICK_S, _ready)
    getting_ready.daemon = True
    getting_ready.start()
    try:
        yield
    finally:
        getting_ready.cancel()


def _ready() -> None:
    """Reads the checks, and the versions that belong together; what is wrong with them is told where they are used."""
    with contextlib.suppress(Exception):
        import envcheck.checks.custom  # noqa: F401  brings all checks
        from envcheck.compat import loading

        loading.table()


def completed(asked: dict[str, Any], site: Settings, found: Facts) -> ExaminedMachine:
    """With the named job as that machine would run it, and the site's thresholds."""
    from dataclasses import replace

    known = replace(found, thresholds=site.thresholds)
    if not _is_job_named(asked):
        return ExaminedMachine(known)
    from envcheck.job.resolve import resolve

    job = resolve(request_of(asked), recipes(asked["recipes_folder"]), known)
    return ExaminedMachine(replace(known, wanted=job.wanted), job)


def refuse_unknown(asked: dict[str, Any]) -> None:
    """UsageError for a job that no recipe has on any machine, before one is asked."""
    if _is_job_named(asked):
        from installers.recipes import catalogue

        words = (asked["model"], asked["method"], asked["device"], asked["framework"])
        catalogue.possible(
            recipes(asked["recipes_folder"]), *words, catalogue.Shape(asked["variant"], asked["node_role"])
        )


def _is_job_named(asked: dict[str, Any]) -> bool:
    return any(asked[name] for name in NAMING)


def request_of(asked: dict[str, Any]) -> JobRequest:
    """The job as the options name it."""
    from pathlib import Path

    from envcheck.job.request import JobRequest

    folder = asked["recipes_folder"]
    return JobRequest(
        model=asked["model"],
        method=asked["method"],
        device=asked["device"],
        framework=asked["framework"],
        variant=asked["variant"],
        node_role=asked["node_role"],
        recipes=Path(folder) if folder else None,
    )


@functools.lru_cache(maxsize=1)
def recipes(folder: str | None) -> Any:
    """Read once: they are asked for each machine of a fleet."""
    from pathlib import Path

    from installers.recipes import catalogue

    return catalogue.load_all(Path(folder) if folder else None)


def replayed(path: str, device: str) -> Facts:
    from pathlib import Path

    from envcheck.collect import facts, snapshot
    from envcheck.core.errors import UsageError

    answers, recorded = snapshot.load(Path(path))
    if device not in ("auto", recorded) and recorded != "auto":
        raise UsageError(f"the snapshot was taken with --device {recorded}", f"leave --device {device} out")
    return facts.read(answers, recorded if device == "auto" else device)
