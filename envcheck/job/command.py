"""The command that a job is, as frozen data; launch.preview and envcheck.job.script print it.  Nothing is run here.

A token that nobody filled stays in the arguments as {master}; `Command.missing` names it, text and script show it as
the shell variable of BLANKS, which says what belongs there.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from envcheck.job.job import Job
from installers.recipes.by_hand import own_folders
from installers.recipes.catalogue import TALKS
from installers.recipes.container_spec import Spec
from installers.recipes.docker_cli import shell_words
from installers.recipes.recipe import Recipe, RecipeJob
from installers.recipes.recipe_notes import grouped
from launch.rendering import yaml_file
from launch.rendering.rows import rows
from launch.rendering.stale_env import left_over

PROGRAMS = Path(__file__).parents[2] / "launch" / "programs"
_TOKEN = re.compile(r"\{([a-z_]+)\}")


@dataclass(frozen=True)
class Placeholder:
    """Where the value of a token comes from in a script; without `default` the script asks for it and stops."""

    variable: str
    meaning: str
    default: str = ""


BLANKS = {
    "rank": Placeholder("NODE_RANK", "the number of this node, 0 for the master, every number once"),
    "master": Placeholder(
        "MASTER_ADDR", "the address of node 0 as the other nodes reach it: no loopback, not localhost"
    ),
    "port": Placeholder("MASTER_PORT", "a port that is free on node 0 and open to the others"),
    "host": Placeholder("HOST_ADDR", "the address of this node as the others reach it"),
    "interfaces": Placeholder("SOCKET_IFNAMES", "the network interfaces of this host to use, comma-separated"),
    "adapter": Placeholder("ADAPTER_DIR", "the folder of the trained adapter, such as .../checkpoint-500"),
    "model_path": Placeholder("MODEL_PATH", "the folder of the model, with its config.json"),
    "workdir": Placeholder("WORK_DIR", "the folder to work in", "$PWD"),
    "data": Placeholder("DATA_PATH", "the training data"),
    "output": Placeholder("OUTPUT_DIR", "where checkpoints go", "$RUN_DIR/output"),
    "log_dir": Placeholder("LOG_DIR", "where the workers' logs go", "$RUN_DIR/log"),
    "config": Placeholder("CONFIG_DIR", "where the files of options go", "$RUN_DIR/config"),
}


@dataclass(frozen=True)
class TrainingCommand:
    """What would run: `unset` leaves, `scripts` are sourced, `environment` is set, `prepend` goes in front; then argv.

    `requires` are files that must exist, `container` is the command that starts the recipe's container, () where there
    is none, `folders` what it mounts from the folder where it is started, `runs` the folder below which a script makes
    one for each run, `missing` the tokens that nobody filled; `own_data`: --data names other data;
    `files` are written before it starts: path → what is in it; `verb` is the command of envcheck that it is of.
    """

    title: str
    launcher: tuple[str, ...]
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    prepend: Mapping[str, str]
    unset: tuple[str, ...]
    scripts: tuple[str, ...]
    requires: tuple[str, ...]
    workdir: str
    missing: tuple[str, ...]
    outputs: tuple[str, ...]
    caution: tuple[str, ...] = ()
    container: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    runs: str = ""
    data: tuple[str, ...] = ()
    own_data: bool = False
    nodes: int = 1
    files: Mapping[str, str] = field(default_factory=dict)
    verb: str = "train"

    @property
    def argv(self) -> tuple[str, ...]:
        return self.launcher + self.arguments


def render(
    recipe: Recipe, job: RecipeJob, values: Mapping[str, str] | None = None, container: Spec | None = None
) -> TrainingCommand:
    """The job with `values` for its tokens; what the recipe knows itself needs no value.  `container` is the one in
    which it runs."""
    known = {**_own_values(recipe, job), **(values or {})}
    if "output" in known:
        known.setdefault("config", str(Path(known["output"]).with_name("config")))

    def fill(texts: Iterable[str]) -> tuple[str, ...]:
        return tuple(_TOKEN.sub(lambda found: known.get(found[1], found[0]), text) for text in texts)

    def fill_map(*tables: Mapping[str, str]) -> dict[str, str]:
        merged = {name: text for table in tables for name, text in table.items()}
        return dict(zip(merged, fill(merged.values()), strict=True))

    launcher, arguments, files = _filed(fill(job.launcher), fill(job.arguments), job.config, known, _verb(job))
    environment, prepend = fill_map(recipe.environment, job.environment), fill_map(recipe.prepend)
    workdir, requires, outputs = known.get("workdir", ""), fill(job.requires), fill(job.outputs)
    said = (*launcher, *arguments, *environment.values(), *prepend.values(), *requires, *outputs)
    missing = tuple(token for token in BLANKS if any(f"{{{token}}}" in text for text in said))
    ours = {*environment, *(BLANKS[token].variable for token in missing)}
    unset = dict.fromkeys((*recipe.unset, *job.unset, *left_over(launcher)))
    return TrainingCommand(
        title=_title(recipe, job),
        launcher=launcher,
        arguments=arguments,
        environment=environment,
        prepend=prepend,
        unset=tuple(name for name in unset if name not in ours),
        scripts=recipe.scripts,
        requires=requires,
        workdir=workdir,
        missing=missing,
        outputs=outputs,
        caution=job.caution,
        container=shell_words(container) if container else (),
        folders=own_folders(recipe.container) if container and recipe.container else (),
        runs=recipe.runs,
        data=fill(job.data),
        nodes=job.nodes,
        own_data=any("{data}" in text for text in (*job.arguments, *job.own_data)),
        files={**files, **_own_files(job, known)},
        verb=_verb(job),
    )


def render_job(job: Job, values: Mapping[str, str] | None = None) -> TrainingCommand:
    """The command of a resolved job, in its container where it has one; a line to paste bears none of our labels."""
    return render(job.recipe, job.method, values, replace(job.container.spec, recipe="") if job.container else None)


def _own_files(job: RecipeJob, known: Mapping[str, str]) -> dict[str, str]:
    """What --data wants beside it; nothing where it was not said."""
    folder = known.get("config", "{config}")
    return {f"{folder}/{name}": f"{text}\n" for name, text in job.own_files.items() if "{data}" not in text}


def _title(recipe: Recipe, job: RecipeJob) -> str:
    which = (job.method, job.variant, job.role and f"({job.role})")
    return f"{recipe.name}, {' '.join(filter(None, which))}: {job.title}"


def _verb(job: RecipeJob) -> str:
    return "infer" if job.method in TALKS else "train"


def _filed(
    launcher: tuple[str, ...], options: tuple[str, ...], name: str, known: Mapping[str, str], verb: str
) -> tuple[tuple[str, ...], tuple[str, ...], dict[str, str]]:
    """Where the program takes a file: its path in the place of the options; those that nobody filled yet stay as
    NAME=VALUE, which wins over the file."""
    if not name:
        return launcher, options, {}
    path = f"{known.get('config', '{config}')}/{name}"
    every = rows(options)
    later = {option: values for option, values in every.items() if any(_open(value) for value in values)}
    said = {option: values for option, values in every.items() if option not in later}
    text = yaml_file.text(said, f"Written by envcheck {verb}: the options of one run.")
    return (*launcher, path), tuple(f"{option}={','.join(values)}" for option, values in later.items()), {path: text}


def _open(text: str) -> bool:
    return any(token in BLANKS for token in _TOKEN.findall(text))


def _own_values(recipe: Recipe, job: RecipeJob) -> dict[str, str]:
    """What the recipe itself says for the tokens; what it leaves open is not in the answer."""
    own = {
        "python": recipe.interpreter,
        "program": str(PROGRAMS / "tiny.py"),
        "nodes": str(job.nodes),
        "processes": str(job.processes),
        "devices": ",".join(map(str, range(job.processes))),
        "port": "" if job.port is None else str(job.port),
        "rank": "" if job.rank is None else str(job.rank),
        "model_path": recipe.model_path,
        "workdir": recipe.workdir,
    }
    if "{program}" in job.launcher:
        own["data"] = str(PROGRAMS / "tiny.txt")  # the text that goes with our program
    return {token: text for token, text in own.items() if text}


def lines(command: TrainingCommand) -> list[tuple[str, ...]]:
    """The arguments in lines to read: an option with what belongs to it, the program alone."""
    if not any(word.startswith("-") for word in command.launcher):
        return [command.launcher, *grouped(command.arguments)]
    return [*grouped(command.launcher[:-1]), command.launcher[-1:], *grouped(command.arguments)]


def shell(text: str) -> str:
    """The text quoted for bash; a token nobody filled becomes its variable."""
    return (
        "".join(
            f'"${{{BLANKS[part].variable}}}"' if number % 2 and part in BLANKS else _quoted(part, bool(number % 2))
            for number, part in enumerate(_TOKEN.split(text))
        )
        or "''"
    )


def _quoted(part: str, token: bool) -> str:
    plain = f"{{{part}}}" if token else part
    return shlex.quote(plain) if plain else ""


def folded(rows: list[str]) -> list[str]:
    """One command over several lines, as a shell reads it."""
    return [
        *(f"{'    ' if n else ''}{row} \\" for n, row in enumerate(rows[:-1])),
        *(f"    {row}" for row in rows[-1:]),
    ]


def container_rows(command: TrainingCommand) -> list[str]:
    """What starts the recipe's container, to read and to paste: its folders, then `docker run` an option a line."""
    words = command.container
    if not words:
        return []
    rows = [" ".join(words[:2]), *(" ".join(row) for row in grouped(words[2:-2])), " ".join(words[-2:])]
    return [*([shlex.join(("mkdir", "-p", *command.folders))] if command.folders else []), *folded(rows)]
