"""`envcheck infer --dry-run` and `--as-script`: show the command without running it."""

from __future__ import annotations

import json
from pathlib import Path

from envcheck.core.errors import SUCCESS, outcome_fields
from envcheck.core.version import SCHEMA_VERSION
from envcheck.job.command import render_job
from envcheck.job.command_values import fill_values
from envcheck.job.local_facts import collect_facts_here
from envcheck.job.resolve import resolve_offer
from envcheck.job.shell_script import render_script
from installers.recipes.catalogue import job_device
from installers.recipes.docker_cli import HERE
from launch.infer.chat_options import ChatOptions, choose_chat
from launch.infer.chat_session import add_question_options
from launch.preview import as_text, as_values, check_early


def render_preview(options: ChatOptions, as_script: bool) -> str:
    """Return the command as text or as a script; with --json as a document, which includes the script if requested."""
    check_early(options.request)
    chosen = choose_chat(options)
    job = chosen.job if options.ask is None else add_question_options(chosen.job)
    facts, folder = collect_facts_here(chosen.request), HERE if as_script else str(Path.cwd())
    resolved = resolve_offer(chosen.request, (chosen.recipe, job), facts, folder)
    made = render_job(resolved, fill_values(chosen.request, chosen.recipe, None))
    if not options.request.as_json:
        return render_script(made) if as_script else as_text(made)
    head = {
        "schema": SCHEMA_VERSION,
        "state": "planned",
        "recipe": chosen.recipe.name,
        "model": chosen.recipe.models[0],
    }
    head |= {"method": job.method, "variant": job.variant, "device": job_device((chosen.recipe, job))}
    head |= {"weights": chosen.adapter or None, **outcome_fields(SUCCESS)}
    return (
        json.dumps({**head, **as_values(made), "script": render_script(made) if as_script else None}, indent=1) + "\n"
    )
