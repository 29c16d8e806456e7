"""Locate the weights of a run.  Its record is untrusted: only the last component of its paths is used."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from envcheck.core.errors import UsageError
from envcheck.core.messages import _, fill, join
from installers.recipes.recipe import Recipe
from installers.targets.exec_target import OWN
from launch.rendering.argument_rows import parse_rows
from launch.runs import follow
from launch.runs.run_state import Run

_NAME = re.compile(r"[A-Za-z0-9_][\w.-]{0,200}")  # folder name of a checkpoint, without path separators
_KINDS = ("finetuning_type", "tuner_type", "train_type", "sft_type", "fine_tuning")
_IN_FILE = re.compile(rf"^(?:{'|'.join(_KINDS)}): \"?(\w{{1,20}})", re.MULTILINE)


def locate_checkpoint(recipe: Recipe, step: int | None, run: Run) -> str:
    """Return the path of a checkpoint (the last if `step` is None) on the host or in the container of the recipe."""
    name = _pick_checkpoint(step, run)
    if not run.get_text("container"):
        return str(follow.find_log_folder(run).parent / "output" / name)
    return str(PurePosixPath(recipe.runs or f"{OWN}/runs") / follow.find_log_folder(run).parent.name / "output" / name)


def _pick_checkpoint(step: int | None, run: Run) -> str:
    names = list_checkpoints(run)
    if not names:
        raise UsageError(
            _("run {id} has no checkpoint (state: {state})", id=run.id, state=fill(run.state)),
            _(
                "inspect it with `envcheck runs show {id}`, or specify the weights with --model NAME --adapter DIR",
                id=run.id,
            ),
        )
    fitting = [name for name in names if step is None or re.fullmatch(rf"(?:.*\D)?0*{step}", name)]
    if not fitting:
        raise UsageError(
            _("run {id} has no checkpoint for step {step}", id=run.id, step=step),
            _("available: {names}", names=join(", ", names[:20])),
        )
    return fitting[-1]


def list_checkpoints(run: Run) -> list[str]:
    """Return the valid folder names of the checkpoints in the record, oldest first."""
    said = run.said.get("checkpoints")
    paths = said if isinstance(said, list) else []
    names = [PurePosixPath(path).name for path in paths[:10_000] if isinstance(path, str)]
    return [name for name in names if _NAME.fullmatch(name)]


def has_adapter(run: Run) -> bool:
    """Whether the run trained an adapter: by the recorded options, else by its method.

    The option may also be in the text of a configuration file that the command writes first.
    """
    command = run.said.get("command")
    words = [word for word in command[:2000] if isinstance(word, str)] if isinstance(command, list) else []
    said = parse_rows(words)
    kinds = [said[kind][0].lower() for kind in _KINDS if said.get(kind)]
    kinds += [found[1].lower() for word in words if (found := _IN_FILE.search(word))]
    if kinds:
        return kinds[0] != "full"
    return "lora" in said or run.get_text("method") == "lora"


def require_text(run: Run, key: str) -> str:
    """Return a text field of the record; UsageError if it is missing."""
    if not run.get_text(key):
        raise UsageError(
            _("{folder}/run.json: {key} is missing or not text", folder=run.folder, key=key),
            _("specify the weights with --model NAME --adapter DIR"),
        )
    return run.get_text(key)
