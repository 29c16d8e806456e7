"""What would run: nothing is changed."""

from __future__ import annotations

import json
from pathlib import Path

from envcheck.core.errors import FIT, outcome
from envcheck.core.version import SCHEMA_VERSION
from envcheck.job.command import render_job
from envcheck.job.here import collect_facts_here
from envcheck.job.resolve import resolve_offer
from envcheck.job.script import script
from envcheck.job.values import fill_values
from installers.recipes.catalogue import device_of
from installers.recipes.docker_cli import HERE
from launch.infer.chat_options import ChatOptions, choose
from launch.infer.session import asking
from launch.preview import as_text, as_values, sound


def preview(wish: ChatOptions, as_script: bool) -> str:
    """For people, as a script, or with --json as one document that holds both."""
    sound(wish.request)
    chosen = choose(wish)
    job = chosen.job if wish.ask is None else asking(chosen.job)
    facts, folder = collect_facts_here(chosen.request), HERE if as_script else str(Path.cwd())
    resolved = resolve_offer(chosen.request, (chosen.recipe, job), facts, folder)
    made = render_job(resolved, fill_values(chosen.request, chosen.recipe, None))
    if not wish.request.as_json:
        return script(made) if as_script else as_text(made)
    head = {
        "schema": SCHEMA_VERSION,
        "state": "planned",
        "recipe": chosen.recipe.name,
        "model": chosen.recipe.models[0],
    }
    head |= {"method": job.method, "variant": job.variant, "device": device_of((chosen.recipe, job))}
    head |= {"weights": chosen.adapter or None, **outcome(FIT)}
    return json.dumps({**head, **as_values(made), "script": script(made) if as_script else None}, indent=1) + "\n"
