"""The command of a job as frozen data; launch.preview and envcheck.job.shell_script print it.

Nothing runs here.  A token without a value stays in the arguments, as {master}; `TrainingCommand.missing` lists it, and
text and script show it as its shell variable in BLANKS, with a description.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from envcheck.core.lint.own_job import OwnJob
from envcheck.core.messages import Message, _
from envcheck.job.choose_cards import describe_choice
from envcheck.job.definition import Job
from installers.recipes.catalogue import TALKS
from installers.recipes.container_spec import ContainerSpec
from installers.recipes.docker_cli import shell_words
from installers.recipes.manual_steps import list_own_folders
from installers.recipes.own_recipe import find_own_job
from installers.recipes.recipe import Recipe, RecipeJob
from installers.recipes.value_notes import group_options
from launch.rendering import yaml_file
from launch.rendering.argument_rows import parse_rows
from launch.rendering.stale_env import list_stale_variables

PROGRAMS = Path(__file__).parents[2] / "launch" / "programs"
_TOKEN = re.compile(r"\{([a-z_]+)\}")


@dataclass(frozen=True)
class Placeholder:
    """The shell variable that supplies a token's value in a script; without `default` the script requires it."""

    variable: str
    meaning: str
    default: str = ""


BLANKS = {
    "rank": Placeholder("NODE_RANK", _("number of this node: 0 for the master, unique on every node")),
    "master": Placeholder(
        "MASTER_ADDR", _("address of node 0 that the other nodes can reach (not a loopback address)")
    ),
    "port": Placeholder("MASTER_PORT", _("port that is free on node 0 and reachable from the other nodes")),
    "host": Placeholder("HOST_ADDR", _("address of this node that the other nodes can reach")),
    "interfaces": Placeholder("SOCKET_IFNAMES", _("network interfaces of this host to use, comma-separated")),
    "adapter": Placeholder("ADAPTER_DIR", _("folder of the trained adapter, such as .../checkpoint-500")),
    "model_path": Placeholder("MODEL_PATH", _("model folder, with config.json")),
    "workdir": Placeholder("WORK_DIR", _("working folder"), "$PWD"),
    "data": Placeholder("DATA_PATH", _("training data")),
    "output": Placeholder("OUTPUT_DIR", _("checkpoint folder"), "$RUN_DIR/output"),
    "log_dir": Placeholder("LOG_DIR", _("folder for the logs of the worker processes"), "$RUN_DIR/log"),
    "config": Placeholder("CONFIG_DIR", _("folder for option files"), "$RUN_DIR/config"),
}


@dataclass(frozen=True)
class TrainingCommand:
    """What runs: `unset` and `environment` change variables, `scripts` are sourced, `prepend` extends paths; then argv.

    `requires`: files that must exist.  `container`: the command that starts the recipe's container, () without one.
    `folders`: what it mounts from the working folder.  `runs`: the parent of the folders that a script creates per run.
    `missing`: tokens without a value.  `own_data`: the job accepts --data.  `files`: path → content, written before the
    start.  `verb`: the envcheck command that runs it, train or infer.  `keeps_environment`: it gets all variables
    of the user, those of other jobs and secrets too.
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
    keeps_environment: bool = False

    @property
    def argv(self) -> tuple[str, ...]:
        """Launcher and arguments."""
        return self.launcher + self.arguments


def render_command(
    recipe: Recipe, job: RecipeJob, values: Mapping[str, str] | None = None, container: ContainerSpec | None = None
) -> TrainingCommand:
    """Return the command of a job with `values` for its tokens, run in `container` if given.

    Tokens that the recipe itself defines need no value.
    """
    if (own := find_own_job(recipe)) is not None:
        return _render_own_command(own, recipe, job)
    known = {**_own_values(recipe, job), **(values or {})}
    if "output" in known:
        known.setdefault("config", str(Path(known["output"]).with_name("config")))

    def fill(texts: Iterable[str]) -> tuple[str, ...]:
        return tuple(_TOKEN.sub(lambda found: known.get(found[1], found[0]), text) for text in texts)

    def fill_map(*tables: Mapping[str, str]) -> dict[str, str]:
        merged = {name: text for table in tables for name, text in table.items()}
        return dict(zip(merged, fill(merged.values()), strict=True))

    launcher, arguments, files = _move_options_to_file(
        fill(job.launcher), fill(job.arguments), job.config, known, _choose_verb(job)
    )
    environment, prepend = fill_map(recipe.environment, job.environment), fill_map(recipe.prepend)
    workdir, requires, outputs = known.get("workdir", ""), fill(job.requires), fill(job.outputs)
    texts = (*launcher, *arguments, *environment.values(), *prepend.values(), *requires, *outputs)
    missing = tuple(token for token in BLANKS if any(f"{{{token}}}" in text for text in texts))
    ours = {*environment, *(BLANKS[token].variable for token in missing)}
    unset = dict.fromkeys((*recipe.unset, *job.unset, *list_stale_variables(launcher)))
    return TrainingCommand(
        title=_format_title(recipe, job),
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
        folders=list_own_folders(recipe.container) if container and recipe.container else (),
        runs=recipe.runs,
        data=fill(job.data),
        nodes=job.nodes,
        own_data=any("{data}" in text for text in (*job.arguments, *job.own_data)),
        files={**files, **_render_own_files(job, known)},
        verb=_choose_verb(job),
    )


def _render_own_command(own: OwnJob, recipe: Recipe, job: RecipeJob) -> TrainingCommand:
    """Return the user's command as it is, in the working folder."""
    return TrainingCommand(
        title=_("{name}: {title}", name=recipe.name, title=recipe.title),
        launcher=own.argv,
        arguments=(),
        environment=job.environment,
        prepend={},
        unset=(),
        scripts=(),
        requires=job.requires,
        workdir=str(Path.cwd()),
        missing=(),
        outputs=job.outputs,
        data=job.data,
        nodes=job.nodes,
        keeps_environment=True,
    )


def render_job(job: Job, values: Mapping[str, str] | None = None) -> TrainingCommand:
    """Return the command of a resolved job, in its container if it has one, without envcheck's own labels."""
    made = render_command(
        job.recipe, job.method, values, replace(job.container.spec, recipe="") if job.container else None
    )
    return replace(made, caution=(*made.caution, describe_choice(job.choice))) if job.choice else made


def _render_own_files(job: RecipeJob, known: Mapping[str, str]) -> dict[str, str]:
    """Return the files that --data needs, path → content; empty without --data."""
    folder = known.get("config", "{config}")
    return {f"{folder}/{name}": f"{text}\n" for name, text in job.own_files.items() if "{data}" not in text}


def _format_title(recipe: Recipe, job: RecipeJob) -> Message:
    which = (job.method, job.variant, job.role and f"({job.role})")
    return _("{name}, {filter}: {title}", name=recipe.name, filter=" ".join(filter(None, which)), title=job.title)


def _choose_verb(job: RecipeJob) -> str:
    return "infer" if job.method in TALKS else "train"


def _move_options_to_file(
    launcher: tuple[str, ...], options: tuple[str, ...], name: str, known: Mapping[str, str], verb: str
) -> tuple[tuple[str, ...], tuple[str, ...], dict[str, str]]:
    """Move the options into an option file if the program takes one: return launcher, arguments and files.

    Options with unfilled tokens stay on the command line as NAME=VALUE, which overrides the file.
    """
    if not name:
        return launcher, options, {}
    path = f"{known.get('config', '{config}')}/{name}"
    rows = parse_rows(options)
    later = {option: values for option, values in rows.items() if any(_has_placeholder(value) for value in values)}
    filled = {option: values for option, values in rows.items() if option not in later}
    text = yaml_file.render_yaml(filled, f"Written by envcheck {verb}: the options of one run.")
    return (*launcher, path), tuple(f"{option}={','.join(values)}" for option, values in later.items()), {path: text}


def _has_placeholder(text: str) -> bool:
    return any(token in BLANKS for token in _TOKEN.findall(text))


def _own_values(recipe: Recipe, job: RecipeJob) -> dict[str, str]:
    """Return the token values that the recipe itself defines."""
    own = {
        "python": recipe.interpreter,
        "program": str(PROGRAMS / "tiny.py"),
        "nodes": str(job.nodes),
        "processes": str(job.processes),
        "devices": ",".join(map(str, job.numbers or range(job.processes))),
        "port": "" if job.port is None else str(job.port),
        "rank": "" if job.rank is None else str(job.rank),
        "model_path": recipe.model_path,
        "workdir": recipe.workdir,
    }
    if "{program}" in job.launcher:
        own["data"] = str(PROGRAMS / "tiny.txt")  # the sample text of our own program
    return {token: text for token, text in own.items() if text}


def format_lines(command: TrainingCommand) -> list[tuple[str, ...]]:
    """Return the arguments in readable lines: one per option with its values, one for the program."""
    if not any(word.startswith("-") for word in command.launcher):
        return [command.launcher, *group_options(command.arguments)]
    return [*group_options(command.launcher[:-1]), command.launcher[-1:], *group_options(command.arguments)]


def shell_quote(text: str) -> str:
    """Return the text quoted for bash; a token without a value becomes its shell variable."""
    return (
        "".join(
            f'"${{{BLANKS[part].variable}}}"' if number % 2 and part in BLANKS else _quote_part(part, bool(number % 2))
            for number, part in enumerate(_TOKEN.split(text))
        )
        or "''"
    )


def _quote_part(part: str, token: bool) -> str:
    plain = f"{{{part}}}" if token else part
    return shlex.quote(plain) if plain else ""


def fold_lines(rows: list[str]) -> list[str]:
    """Return one shell command over several lines, with backslashes and indentation."""
    return [
        *(f"{'    ' if n else ''}{row} \\" for n, row in enumerate(rows[:-1])),
        *(f"    {row}" for row in rows[-1:]),
    ]


def container_rows(command: TrainingCommand) -> list[str]:
    """Return the lines that start the recipe's container: mkdir, then `docker run` with one option per line."""
    words = command.container
    if not words:
        return []
    rows = [" ".join(words[:2]), *(" ".join(row) for row in group_options(words[2:-2])), " ".join(words[-2:])]
    return [*([shlex.join(("mkdir", "-p", *command.folders))] if command.folders else []), *fold_lines(rows)]
