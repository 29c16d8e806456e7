"""Collect what doctor evaluates: the facts of this machine or of a recording, and the job resolved for it."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envcheck.cli.requests import convert_request
from envcheck.core.messages import _

QUICK_S = 0.3  # seconds: faster tools finish by then; slower ones wait for their driver and leave a core idle

if TYPE_CHECKING:
    from envcheck.cli.doctor_options import ExamineOptions
    from envcheck.core.facts import Facts
    from envcheck.job.definition import Job
    from envcheck.job.request import JobRequest
    from envcheck.settings.site_config import SiteSettings


@dataclass(frozen=True)
class ExaminedMachine:
    """`facts` include the requirements of the job; `job` is None without one."""

    facts: Facts
    job: Job | None = None


def examine_machine(request: ExamineOptions, site: SiteSettings, recording: Path | None, hint: str) -> ExaminedMachine:
    """Return the facts of the machine or recording, and the job as it would run there."""
    from envcheck.collect import answer_sources, facts
    from envcheck.report import screen

    refuse_unknown_job(request)
    if recording:
        found = read_recording(recording, request.device)
    else:
        with screen.show_hint(hint), _preload_when_slow():
            source, limit_s = answer_sources.local_machine(), request.timeout_s
            found = facts.gather_facts(source, request.device, more=site.questions, limit_s=limit_s)
        if request.is_job_named:
            from envcheck.job.local_facts import add_job_places

            found = add_job_places(found, build_job_request(request))
    return add_named_job(request, site, found, is_here=recording is None)


@contextlib.contextmanager
def _preload_when_slow() -> Iterator[None]:
    """Import the checks while slow tools run; fast tools would have to wait for it."""
    import threading

    getting_ready = threading.Timer(QUICK_S, _preload_checks)
    getting_ready.daemon = True
    getting_ready.start()
    try:
        yield
    finally:
        getting_ready.cancel()


def _preload_checks() -> None:
    """Import the checks and version tables; errors in them are reported where they are used."""
    with contextlib.suppress(Exception):
        import envcheck.checks.custom  # noqa: F401  brings all checks
        from envcheck.compat import table_loader

        table_loader.own_version_table()


def add_named_job(request: ExamineOptions, site: SiteSettings, found: Facts, is_here: bool = False) -> ExaminedMachine:
    """Return the facts with the selected job, resolved for that machine, and the site's thresholds.

    `is_here`: the facts are those of this machine.
    """
    known = replace(found, thresholds=site.thresholds)
    if not request.is_job_named:
        return ExaminedMachine(known)
    from launch.own_job_facts import resolve_job

    job = resolve_job(build_job_request(request), load_recipes(request.recipes), known, is_here=is_here)
    return ExaminedMachine(replace(known, wanted=job.wanted), job)


def refuse_unknown_job(request: ExamineOptions) -> None:
    """Raise UsageError for a job that no recipe has for any machine, before facts are collected."""
    if request.is_job_named and request.own_job is None:
        from installers.recipes import catalogue

        words = (request.model, request.method, request.device, request.framework)
        known = load_recipes(request.recipes)
        if request.recipe:
            known = (catalogue.check_agreement(catalogue.find_recipe(known, request.recipe), *words),)
        catalogue.list_possible(known, *words, catalogue.JobShape(request.variant, request.node_role))


def build_job_request(request: ExamineOptions) -> JobRequest:
    """Return the job that the options select."""
    from envcheck.job.request import JobRequest

    return convert_request(JobRequest, request)


@functools.lru_cache(maxsize=1)
def load_recipes(folder: Path | None) -> Any:
    """Return the recipes; cached, because each host of a fleet needs them."""
    from installers.recipes import catalogue

    return catalogue.load_all(folder)


def read_recording(path: Path, device: str) -> Facts:
    from envcheck.collect import snapshot
    from envcheck.collect.fact_reader import read_facts
    from envcheck.core.errors import UsageError

    answers, recorded = snapshot.load_snapshot(path)
    if device not in ("auto", recorded) and recorded != "auto":
        raise UsageError(
            _("the snapshot was taken with --device {recorded}", recorded=recorded),
            _("remove --device {device}", device=device),
        )
    return read_facts(answers, recorded if device == "auto" else device)
