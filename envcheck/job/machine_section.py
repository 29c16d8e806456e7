"""Describe a resolved job in a few lines: what runs on the machine, and what blocks it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from envcheck.compat.image_versions import describe_contents
from envcheck.core.language import translate
from envcheck.core.messages import _, fill, join
from envcheck.core.model import Status
from envcheck.job.container_privileges import describe_doubt
from envcheck.job.definition import Job
from installers.recipes.docker_cli import run_argv

SKIPPED_WORDS = 3  # docker run --detach: the words before the options


def describe_job(job: Job) -> Iterator[str]:
    """Yield lines of label and text; the failed requirements come last."""
    words = " ".join(filter(None, (job.method.method, job.method.variant, job.method.role)))
    yield _format_row(_("job"), translate(_("{method}: {title}", method=words, title=fill(job.method.title))))
    if job.assumed_host:
        yield _format_row(_("host"), translate(job.assumed_host))
    yield _format_row(_("architecture"), job.architecture)
    own = _("none: the job runs in your own environment on this host")
    made = _("none: the job runs in a virtual environment on this host")
    yield _format_row(_("image"), job.image or translate(own if job.recipe.own_environment else made))
    if job.image_versions:
        yield _format_row(_("image contents"), translate(describe_contents(job.image_versions)))
    devices = join(", ", map(str, job.devices)) or _("none: the job runs on the CPU")
    yield _format_row(_("devices"), translate(devices))
    if job.container:
        spec = job.container.spec
        yield _format_row(_("privileged"), translate(_("yes")) if spec.privileged else translate(_("no")))
        yield _format_row(_("container options"), shlex.join(run_argv(spec)[SKIPPED_WORDS : -1 - len(spec.command)]))
        if doubt := describe_doubt(job.container, job.recipe.name):
            yield f"  {translate(doubt)}"
    for finding in job.findings:
        if finding.status is Status.FAIL:
            name = finding.name.partition(".")[2]
            yield _format_row(_("blocked by"), translate(_("{name}: {seen}", name=name, seen=finding.seen)))


def _format_row(name: str, text: str) -> str:
    return f"  {translate(name)} = {text}"
