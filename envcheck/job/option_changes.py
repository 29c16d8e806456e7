"""What a job's options became for the installed version of its program."""

from __future__ import annotations

from envcheck.core.facts import Facts
from envcheck.core.messages import Message, _
from envcheck.job.definition import Job
from envcheck.job.options import parse_versions
from envcheck.job.request import JobRequest
from envcheck.job.resolve import find_installed_packages
from launch.rendering import dialects
from launch.rendering.argument_rows import parse_rows


def list_option_changes(request: JobRequest, job: Job, facts: Facts) -> tuple[Message, ...]:
    """Return a line for each option of the recipe that was renamed or left out."""
    wanted = (job.method.method, job.method.variant, job.method.role)
    original = next((j for j in job.recipe.jobs if (j.method, j.variant, j.role) == wanted), None)
    if original is None or job.own is not None:
        return ()
    there = {**find_installed_packages(request, job.recipe, facts), **parse_versions(request.installed)}
    dialect = dialects.translate_job(job.recipe, original, there)[1]
    if dialect is None:
        return ()
    rows = parse_rows(original.arguments)
    renamed = [_("--{option} was --{name}", option=new, name=old) for old, new in dialect.rename.items() if old in rows]
    dropped = [
        _("--{option} is left out: {reason}", option=name, reason=why)
        for name, why in dialect.drop.items()
        if name in rows
    ]
    return (*renamed, *dropped)
