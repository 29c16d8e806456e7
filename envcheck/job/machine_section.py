"""A job on the machine that it was resolved for, in a few lines: what runs there, and what blocks it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from envcheck.core.language import exact, label, say
from envcheck.core.model import Status
from envcheck.job.container import describe_doubt
from envcheck.job.job import Job
from installers.recipes.docker_cli import run_argv

KINDS = 3  # docker run --detach: what stands before the options


def describe_job(job: Job) -> Iterator[str]:
    """Lines of a label and a text, the judge's own sentences last."""
    words = " ".join(filter(None, (job.method.method, job.method.variant, job.method.role)))
    yield _row("job", f"{words}{say(': ')}{exact(job.method.title)}")
    if job.assumed_host:
        yield _row("host", say(job.assumed_host))
    yield _row("architecture", job.architecture)
    yield _row("image", job.image or say("none: it runs in a virtual environment of this host"))
    yield _row("devices", ", ".join(map(str, job.devices)) or say("none: it runs on the processor"))
    if job.container:
        spec = job.container.spec
        yield _row("privileged", say("yes") if spec.privileged else say("no"))
        yield _row("container options", shlex.join(run_argv(spec)[KINDS : -1 - len(spec.command)]))
        if doubt := describe_doubt(job.container, job.recipe.name):
            yield f"  {say(doubt)}"
    for finding in job.findings:
        if finding.status is Status.FAIL:
            name = finding.name.partition(".")[2]
            yield _row("blocked by", f"{name}{say(': ')}{say(finding.seen)}")


def _row(name: str, text: str) -> str:
    return f"  {label(name)} = {text}"
