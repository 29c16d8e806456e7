"""What doctor judges: the facts of this machine or of a recording, and the job that was named, resolved for it."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envcheck.cli.requests import convert_request

QUICK_S = 0.3  # a machine's tools answer in this time, or wait for their driver and leave a processor idle

if TYPE_CHECKING:
    from envcheck.cli.doctor_options import ExamineOptions
    from envcheck.core.facts import Facts
    from envcheck.job.job import Job
    from envcheck.job.request import JobRequest
    from envcheck.settings.site_settings import Settings


@dataclass(frozen=True)
class ExaminedMachine:
    """`facts` with what the job demands; `job` is None where none was named."""

    facts: Facts
    job: Job | None = None


def gathered(request: ExamineOptions, site: Settings, recording: Path | None, hint: str) -> ExaminedMachine:
    """What the machine or the recording says, and the named job as that machine would run it."""
    from envcheck.collect import facts, machine
    from envcheck.report import screen

    refuse_unknown(request)
    if recording:
        found = replayed(recording, request.device)
    else:
        with screen.hint(hint), _meanwhile():
            found = facts.gather(machine.here(), request.device, more=site.questions)
        if request.is_job_named:
            from envcheck.job.here import add_own_places

            found = add_own_places(found, job_request(request))
    return completed(request, site, found)


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


def completed(request: ExamineOptions, site: Settings, found: Facts) -> ExaminedMachine:
    """With the named job as that machine would run it, and the site's thresholds."""
    known = replace(found, thresholds=site.thresholds)
    if not request.is_job_named:
        return ExaminedMachine(known)
    from envcheck.job.resolve import resolve

    job = resolve(job_request(request), load_recipes(request.recipes), known)
    return ExaminedMachine(replace(known, wanted=job.wanted), job)


def refuse_unknown(request: ExamineOptions) -> None:
    """UsageError for a job that no recipe has on any machine, before one is asked."""
    if request.is_job_named:
        from installers.recipes import catalogue

        words = (request.model, request.method, request.device, request.framework)
        catalogue.possible(load_recipes(request.recipes), *words, catalogue.Shape(request.variant, request.node_role))


def job_request(request: ExamineOptions) -> JobRequest:
    """The job as the options name it."""
    from envcheck.job.request import JobRequest

    return convert_request(JobRequest, request)


@functools.lru_cache(maxsize=1)
def load_recipes(folder: Path | None) -> Any:
    """Read once: they are asked for each machine of a fleet."""
    from installers.recipes import catalogue

    return catalogue.load_all(folder)


def replayed(path: Path, device: str) -> Facts:
    from envcheck.collect import snapshot
    from envcheck.collect.fact_reader import read_facts
    from envcheck.core.errors import UsageError

    answers, recorded = snapshot.load(path)
    if device not in ("auto", recorded) and recorded != "auto":
        raise UsageError(f"the snapshot was taken with --device {recorded}", f"leave --device {device} out")
    return read_facts(answers, recorded if device == "auto" else device)
