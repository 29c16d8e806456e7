"""Write a job of the user's own as a recipe file, which other commands and other machines can use."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from envcheck.core.lint.own_job import OwnJob, ValueState
from installers.recipes.own_recipe import OwnRecipe
from installers.recipes.recipe import RecipeJob

# Options of torch's launcher whose values envcheck fills in, so that the recipe works on other nodes and cards.
LAUNCHER_TOKENS = {
    "nproc_per_node": "{processes}",
    "nnodes": "{nodes}",
    "node_rank": "{rank}",
    "master_addr": "{master}",
    "master_port": "{port}",
}
TORCH = ("torchrun", "torch.distributed.run")
OUTPUTS = ("output_dir", "save", "output")


def render_recipe(recipe: OwnRecipe, name: str) -> str:
    """Return the TOML text of a recipe with this name; its comments say what was assumed."""
    assert recipe.own is not None
    job, own = recipe.jobs[0], recipe.own
    launcher, arguments, config = _split_command(own)
    launcher = (shutil.which(launcher[0]) or launcher[0], *launcher[1:])
    head: dict[str, Any] = {
        "name": name,
        "title": recipe.title,
        "device": recipe.device,
        "framework": recipe.framework or "own",
    }
    head |= {"models": list(recipe.models), "source": own.source, "workdir": str(Path.cwd())}
    head |= {"dimensions": recipe.dimensions} if recipe.dimensions else {}
    head |= {"own_environment": True}
    table: dict[str, Any] = {"method": job.method, "title": recipe.title, "nodes": job.nodes}
    table |= {"cards": job.cards, "processes": job.processes, "port": _find_port(own)}
    table |= {"parallel": _complete_degrees(job), "steps": dict(job.steps), "plan": dict(job.plan)}
    outputs = ["{output}"] if any("{output}" in word for word in arguments) else []
    files = [word for word in (launcher[0], own.source if own.is_script else "") if "/" in word or word == own.source]
    table |= {"data": list(job.data), "requires": [*job.requires, *files], "outputs": outputs}
    table |= {"config": config, "launcher": list(launcher), "arguments": list(arguments)}
    lines = [
        f"# Written by envcheck recipes create from {own.source}.",
        *_list_doubts(own),
        *_format_table(head),
        "",
        "[hardware]",
        'product = "any"',
        "",
        "[[jobs]]",
        *_format_table({key: value for key, value in table.items() if value not in (None, "", [], {})}),
    ]
    return "\n".join(lines) + "\n"


def make_recipe_name(text: str) -> str:
    """Return a valid recipe name for a file name."""
    return re.sub(r"[^a-z0-9._-]+", "-", text.lower()).strip("-._")[:60] or "own"


def _list_doubts(own: OwnJob) -> Iterator[str]:
    for value in own.list_unsettled():
        if value.state is ValueState.ASSUMED and value.value:
            yield f"# {value.name}: {value.value}, assumed ({value.where})"
        elif not value.value:
            yield f"# {value.name}: unknown"


def _split_command(own: OwnJob) -> tuple[tuple[str, ...], tuple[str, ...], str]:
    """Launcher, arguments, and the name of the file for these: of a flat configuration the keys themselves."""
    is_config = own.source.endswith((".yaml", ".yml")) and own.source in own.argv
    names = [word for word in own.arguments if word.startswith("--")]
    if is_config and not any("." in name for name in names):
        at = own.argv.index(own.source)
        return own.argv[:at], _replace_output(own.arguments), Path(own.source).name
    program = next((n for n, word in enumerate(own.argv) if word.endswith(".py")), None)
    if program is None or not any(word.startswith("--") for word in own.argv[program + 1 :]):
        return own.argv, (), ""
    launcher, arguments = own.argv[: program + 1], own.argv[program + 1 :]
    return _replace_launcher_values(launcher), _replace_output(arguments), ""


def _replace_launcher_values(words: Sequence[str]) -> tuple[str, ...]:
    if not any(word.rpartition("/")[2] in TORCH for word in words):
        return tuple(words)
    made, token = [], ""
    for word in words:
        name, equals, _unused = word.lstrip("-").partition("=")
        found = LAUNCHER_TOKENS.get(name.replace("-", "_"), "") if word.startswith("--") else ""
        made.append(token or (f"{word.partition('=')[0]}={found}" if found and equals else word))
        token = found if found and not equals else ""
    return tuple(made)


def _replace_output(words: Sequence[str]) -> tuple[str, ...]:
    """The arguments with the run's own output folder."""
    made, is_output = [], False
    for word in words:
        name, equals, _unused = word.lstrip("-").partition("=")
        found = word.startswith("--") and name.replace("-", "_") in OUTPUTS
        made.append("{output}" if is_output else f"--{name}={{output}}" if found and equals else word)
        is_output = found and not equals
    return tuple(made)


def _find_port(own: OwnJob) -> int | None:
    words = " ".join(own.argv).replace("=", " ")
    found = re.search(r"--master[_-]port (\d{1,5})\b", words)
    return int(found[1]) if found else None


def _complete_degrees(job: RecipeJob) -> dict[str, int]:
    """The degrees with the data-parallel rest, by which the job scales to other numbers of cards."""
    model = 1
    for degree in job.parallel.values():
        model *= degree
    world = job.nodes * job.processes
    return {**job.parallel, "data": world // model} if world % model == 0 else {}


def _format_table(table: Mapping[str, Any]) -> Iterator[str]:
    for key, value in table.items():
        yield f"{key} = {_format_value(value)}"


def _format_value(value: Any) -> str:
    if isinstance(value, Mapping):
        inner = ", ".join(f"{key} = {_format_value(each)}" for key, each in value.items())
        return f"{{ {inner} }}"
    if isinstance(value, list):
        return "[" + ", ".join(_format_value(each) for each in value) + "]"
    return json.dumps(value, ensure_ascii=False)
