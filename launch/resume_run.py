"""`envcheck train --resume RUN`: continue from the newest whole checkpoint of a run."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from envcheck.core.errors import UsageError
from envcheck.core.facts import Facts
from envcheck.core.language import translate
from envcheck.core.messages import _, join, verbatim
from envcheck.core.secrets import redact_words
from envcheck.core.units import format_gib
from envcheck.job.resolve import resolve
from installers.recipes.recipe import Recipe
from installers.targets.exec_target import OWN
from launch.programs import checkpoint_check
from launch.programs.checkpoint_check import CheckedCheckpoint
from launch.rendering.resume_option import find_resume_option
from launch.run import run_text
from launch.run.record import list_checkpoints
from launch.runs import request_note, run_index
from launch.runs.run_state import Run
from launch.targets.train_request import TrainRequest

EXAMPLE = "--resume_from_checkpoint"  # of most programs
SHOWN = 4  # flaws of a checkpoint


def add_resume_option(request: TrainRequest, recipes: Sequence[Recipe], facts: Facts) -> TrainRequest:
    """Return the request with the framework's option for the newest whole checkpoint; unchanged without --resume."""
    if request.resume is None:
        return request
    run = run_index.find_run(request.resume, None if request.resume == "latest" else _find_folder(request))
    if request.own_job is not None and request.own_job.is_script:
        paths = list_checkpoints(run.folder / "output")
        if not paths:
            raise _make_no_checkpoint_error(run.id)
        raise UsageError(
            _("{file} is a script: envcheck cannot add the checkpoint to its command", file=request.own_job.source),
            _("give it its own option for the checkpoint: {path}", path=paths[-1]),
        )
    job = resolve(request, recipes, facts)
    if run.is_running:
        raise UsageError(
            _("run {id} is still active (state: {state})", id=run.id, state=run.state),
            _("stop it first: `envcheck runs stop {id}`", id=run.id),
        )
    for key, value in (("recipe", job.recipe.name), ("method", job.method.method)):
        if run.get_text(key) != value:
            raise UsageError(
                _(
                    "run {id} has the {key} {there}, this job {here}",
                    id=run.id,
                    key=verbatim(key),
                    there=run.get_text(key) or "?",
                    here=value,
                ),
                _("repeat the run's own job: `envcheck train --resume {id}`", id=run.id),
            )
    option = find_resume_option(job.recipe.framework, (*job.method.launcher, *job.method.arguments))
    if option is None:
        raise UsageError(
            _("envcheck knows no resume option of {framework}", framework=job.recipe.framework or _("this program")),
            _("start it with its own option, for example: {command}", command=write_own_resumption(run.folder)),
        )
    path = choose_checkpoint(run, job.recipe)
    return replace(request, resume_path=path, resumed_run=run.id, added_settings=(f"{option}={path}",))


def write_own_resumption(folder: Path) -> str:
    """Return the run's command with an option for its checkpoint, whose name only the user knows."""
    words = list(request_note.read_note(folder).words) or ["..."]
    at = words.index("--") if "--" in words else len(words)
    before = drop_option(words[:at], "--resume")
    path = (list_checkpoints(folder / "output") or ["DIR"])[-1]
    behind = words[at:] or ["--"]
    return shlex.join(redact_words(("envcheck", "train", *before, *behind, EXAMPLE, path)))


def drop_option(words: Sequence[str], option: str) -> list[str]:
    """Return the words without the option and its value."""
    kept, left = [], list(words)
    while left:
        word = left.pop(0)
        if word == option:
            left = left[1:]
        elif not word.startswith(f"{option}="):
            kept.append(word)
    return kept


def _find_folder(request: TrainRequest) -> Path | None:
    """Return the folder of --runs if it has the run, which then needs no index."""
    runs = request.runs.expanduser().absolute()
    return runs if (runs / str(request.resume) / "run.json").is_file() else None


def choose_checkpoint(run: Run, recipe: Recipe) -> str:
    """Return the path of the newest checkpoint that is whole, at the place of the training."""
    found = list_checkpoints(run.folder / "output")
    if not found and run.get_text("container"):  # not shared with this host: the gate checks it in the container
        return _find_container_checkpoint(run, recipe)
    if not found:
        raise _make_no_checkpoint_error(run.id)
    paths, refused = [Path(path) for path in found], []
    for number in reversed(range(len(paths))):
        checked = checkpoint_check.check_checkpoint(paths[number], paths[number - 1] if number else None)
        if checked.is_whole is not False:
            run_text.print_line(describe_choice(checked))
            return _place_path(run, recipe, paths[number])
        run_text.print_line(describe_refusal(checked))
        refused.append(paths[number].name)
    raise UsageError(
        _("no checkpoint of run {id} is whole: {names}", id=run.id, names=join(", ", refused[:SHOWN])),
        _("repeat it from the beginning: `envcheck runs rerun {id}`", id=run.id),
    )


def describe_choice(checked: CheckedCheckpoint) -> str:
    """Return what the training continues from, and what was checked."""
    text = _(
        "resumes from {path}: {files} files, {size}, whole, sampled values are finite",
        path=checked.folder,
        files=checked.files,
        size=format_gib(checked.size_bytes),
    )
    return translate(join("; ", [text, *(verbatim(str(flaw)) for flaw in checked.flaws[:SHOWN])]))


def describe_refusal(checked: CheckedCheckpoint) -> str:
    """Return why a checkpoint is not used."""
    flaws = join("; ", [verbatim(str(flaw)) for flaw in checked.flaws[:SHOWN]])
    return translate(_("skips {path}: {flaws}", path=checked.folder, flaws=flaws))


def _place_path(run: Run, recipe: Recipe, path: Path) -> str:
    if not run.get_text("container"):
        return str(path)
    return f"{recipe.runs or f'{OWN}/runs'}/{run.id}/{path.relative_to(run.folder)}"


def _find_container_checkpoint(run: Run, recipe: Recipe) -> str:
    known = run.said.get("checkpoints")
    paths = [Path(path).name for path in known if isinstance(path, str)] if isinstance(known, list) else []
    if not paths:
        raise _make_no_checkpoint_error(run.id)
    return f"{recipe.runs or f'{OWN}/runs'}/{run.id}/output/{paths[-1]}"


def _make_no_checkpoint_error(run: str) -> UsageError:
    return UsageError(
        _("run {id} has no checkpoint", id=run),
        _("repeat it from the beginning: `envcheck runs rerun {id}`", id=run),
    )
