"""The options of `envcheck train`: the job, and how to start, monitor and record it."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

from envcheck.job.repeat_options import format_own_options
from envcheck.job.request import JobRequest
from envcheck.settings.site_access import NO_SITE, SiteAccess


@dataclass(frozen=True)
class TrainRequest(JobRequest):
    """A job with the options of train; `runs` is the folder for runs, `gather_s` the time limit of the rendezvous.

    `resume` is the name of a run; `resumed_run` is then its id, and `resume_path` the folder to continue from.  `site`
    is how `provision` reaches the outside.
    """

    runs: Path = Path("runs")
    deadline_s: float | None = None
    provision: bool = False
    yes: bool = False
    as_json: bool = False
    detach: bool = False
    gather_s: float = 600.0
    no_stop: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()
    stop: tuple[str, ...] = ()
    dashboard: bool = False
    waive: tuple[str, ...] = ()
    because: tuple[str, ...] = ()
    gates: bool = False
    fail_on_unknown: bool = False
    on_event: tuple[str, ...] = ()
    webhook: tuple[str, ...] = ()
    metrics_file: Path | None = None
    resume: str | None = None
    restart: int = 0
    resumed_run: str = ""
    resume_path: str = ""
    site: SiteAccess = NO_SITE


def format_repeat_options(request: TrainRequest) -> str:
    """Return the options of train, beyond those that select the job, that repeat this request."""
    said = [] if request.runs == TrainRequest.runs else ["--runs", str(request.runs)]
    said += ["--resume", request.resumed_run] if request.resumed_run else []
    said += ["--metrics-file", str(request.metrics_file.absolute())] if request.metrics_file else []
    said += ["--restart", str(request.restart)] if request.restart else []
    said += [] if request.deadline_s is None else ["--deadline", f"{request.deadline_s:.0f}"]
    said += [] if request.gather_s == TrainRequest.gather_s else ["--gather", f"{request.gather_s:g}"]
    several = {"--waive": request.waive, "--because": request.because}
    several |= {"--on-event": request.on_event}  # not --webhook: its URL may hold a secret
    several |= {"--no-stop": request.no_stop, "--limit": request.limits, "--stop": request.stop}
    said += [word for name, values in several.items() for value in values for word in (name, value)]
    said += [f"--{flag}" for flag in ("detach", "dashboard") if getattr(request, flag)]
    said += ["--fail-on-unknown"] if request.fail_on_unknown else []
    return f"{shlex.join(said)} {format_own_options(request)}".strip()
