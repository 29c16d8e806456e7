"""reference/recipes.md: the recipes, their jobs, and where they differ from the published documents."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.cli.docs.markdown_table import NOTE, PUBLISHED, cell, code, link, source, table
from installers.recipes import catalogue
from installers.recipes.recipe import Recipe, RecipeJob
from installers.recipes.validation import TOKENS
from installers.recipes.value_notes import list_values

TOKEN_MEANINGS = {
    "python": "the interpreter of the environment",
    "program": "envcheck's small training program",
    "nodes": "number of nodes",
    "processes": "processes of one node",
    "devices": "device list, such as `0,1,2,3`",
    "rank": "number of this node (`--rank`; a script asks for `NODE_RANK`)",
    "master": "address of node 0 (`--master`; `MASTER_ADDR`)",
    "port": "port of the launcher (`--port`; `MASTER_PORT`)",
    "host": "address of this node (`--host`; `HOST_ADDR`)",
    "interfaces": "network interface that has this address (`SOCKET_IFNAMES`)",
    "model_path": "the recipe's model path, else `MODEL_PATH`",
    "workdir": "the recipe's working directory, else `WORK_DIR`",
    "data": "the training data, else `DATA_PATH`",
    "adapter": "an adapter folder, else `ADAPTER_DIR`",
    "output": "checkpoint folder of the run",
    "log_dir": "log folder of the run",
    "config": "configuration file of the run",
}


def page() -> str:
    """Return the page."""
    known = catalogue.load_all()
    lines = [NOTE, "", "# Recipes", ""]
    lines += [
        "A recipe is one published set-up as data: what it needs of a machine, what is installed, and the command of"
    ]
    lines += ["each job. `envcheck recipes show NAME` prints its job on your machine, and the source of every value."]
    lines += ["[Write a recipe](../how-to/write-a-recipe.md) shows how to change one.", ""]
    rows = [(_link(r), cell("".join(r.models[:1])), _devices(r), r.framework, _methods(r)) for r in known]
    lines += table(("recipe", "model", "device", "framework", "methods"), rows)
    lines += ["", "## Tokens", "", "envcheck replaces these tokens in `launcher`, `arguments` and `environment`:", ""]
    lines += table(("token", "value"), [(f"`{{{name}}}`", TOKEN_MEANINGS[name]) for name in sorted(TOKENS)])
    for recipe in known:
        lines += ["", f"## {recipe.name}", "", *_recipe(recipe)]
    return "\n".join(lines) + "\n"


def _link(recipe: Recipe) -> str:
    return f"[`{recipe.name}`](#{recipe.name.replace('.', '')})"


def _images(recipe: Recipe) -> str:
    references = recipe.image.references if recipe.image else {}
    return ", ".join(f"{code(name)} ({architecture})" for architecture, name in references.items())


def _devices(recipe: Recipe) -> str:
    return recipe.device or " + ".join(dict.fromkeys(job.device for job in recipe.jobs))


def _methods(recipe: Recipe) -> str:
    return ", ".join(dict.fromkeys(f"`{job.method}`" for job in recipe.jobs))


def _recipe(recipe: Recipe) -> Iterator[str]:
    yield f"{cell(recipe.title)}."
    yield ""
    cited = [number for number in PUBLISHED if number in recipe.documents]
    facts = {
        "Published document": ", ".join(map(link, cited)),
        "Based on": code(recipe.like),
        "Hardware": cell(recipe.hardware.product),
        "Minimum driver": code(recipe.driver_minimum or ""),
        "Minimum toolkit": code(recipe.toolkit_minimum or ""),
        "Python": code(recipe.python),
        "Image": _images(recipe),
        "Packages": ", ".join(code(f"{package.name}{package.specifier}") for package in recipe.packages),
        "Weights": f"{recipe.weights.size_gib:g} GiB" if recipe.weights and recipe.weights.size_gib else "",
    }  # fmt: skip
    yield from (f"- {name}: {value}" for name, value in facts.items() if value)
    yield ""
    yield from table(("job", "nodes × devices", "layout", "what it does"), [_job(job, recipe) for job in recipe.jobs])
    changed = [] if recipe.like else list(dict.fromkeys(_differences(recipe)))
    if changed:
        yield from ("", "Differences from the published document:", "")
        yield from table(("value", "published", "recipe", "reason"), changed)


def _job(job: RecipeJob, recipe: Recipe) -> tuple[str, ...]:
    name = " ".join(f"`{word}`" for word in (job.method, job.variant, job.role) if word)
    cards = recipe.hardware.cards if job.cards is None else job.cards
    short = {"tensor": "TP", "pipeline": "PP", "sharding": "sharding", "data": "DP"}
    layout = ", ".join(f"{short.get(kind, kind)} {degree}" for kind, degree in job.parallel.items() if degree > 1)
    return name, f"{job.nodes} × {cards or '-'}", layout, cell(job.title)


def _differences(recipe: Recipe) -> Iterator[tuple[str, ...]]:
    for leaf in list_values(recipe):
        if leaf.note.published is not None:
            yield cell(_key(leaf.key)), _value(leaf.note.published), _value(leaf.value), source(leaf.note.reason)
    for trap in recipe.traps:
        yield "document", _value(trap.published), _value(trap.instead), source(trap.reason)


def _key(key: str) -> str:
    """Return the key without its job: several jobs of a recipe differ in the same way."""
    return re.sub(r"^jobs\.[\w.]+?\.(launcher|arguments|steps|environment)\.", "", key)


def _value(value: object) -> str:
    if isinstance(value, (tuple, list)):
        value = " ".join(map(str, value))
    return cell(str(value).lower() if isinstance(value, bool) else value)
