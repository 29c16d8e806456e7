"""The weights that a run left, by its record, which is a stranger's word: of its paths the last name alone is taken."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from envcheck.core.errors import UsageError
from installers.recipes.recipe import Recipe
from installers.targets.exec_target import OWN
from launch.rendering.rows import rows
from launch.runs import follow
from launch.runs.run_state import Run

_NAME = re.compile(r"[A-Za-z0-9_][\w.-]{0,200}")  # of a checkpoint's folder: nothing that leads out of it
_KINDS = ("finetuning_type", "tuner_type", "train_type", "sft_type", "fine_tuning")
_IN_FILE = re.compile(rf"^(?:{'|'.join(_KINDS)}): \"?(\w{{1,20}})", re.MULTILINE)


def place(recipe: Recipe, step: int | None, run: Run) -> str:
    """Of a checkpoint.  Of the record its name alone is taken; where runs stand is known without it."""
    name = _pick(step, run)
    if not run.text("container"):
        return str(follow.logs(run).parent / "output" / name)
    return str(PurePosixPath(recipe.runs or f"{OWN}/runs") / follow.logs(run).parent.name / "output" / name)


def _pick(step: int | None, run: Run) -> str:
    names = checkpoints(run)
    if not names:
        why = "still runs" if run.running else f"is {run.state} and left none"
        raise UsageError(
            f"the run {run.id} has no checkpoint on record: it {why}",
            "envcheck runs show latest tells more; --model NAME --adapter DIR names one by its folder",
        )
    fitting = [name for name in names if step is None or re.fullmatch(rf"(?:.*\D)?0*{step}", name)]
    if not fitting:
        raise UsageError(f"the run {run.id} has no checkpoint {step}", f"it has {', '.join(names[:20])}")
    return fitting[-1]


def checkpoints(run: Run) -> list[str]:
    said = run.said.get("checkpoints")
    paths = said if isinstance(said, list) else []
    names = [PurePosixPath(path).name for path in paths[:10_000] if isinstance(path, str)]
    return [name for name in names if _NAME.fullmatch(name)]


def adapted(run: Run) -> bool:
    """Whether it trained an adapter beside a model: by the options on record, else by the method's name.  An option
    may stand in the text of a file that the command writes first."""
    command = run.said.get("command")
    words = [word for word in command[:2000] if isinstance(word, str)] if isinstance(command, list) else []
    said = rows(words)
    kinds = [said[kind][0].lower() for kind in _KINDS if said.get(kind)]
    kinds += [found[1].lower() for word in words if (found := _IN_FILE.search(word))]
    if kinds:
        return kinds[0] != "full"
    return "lora" in said or run.text("method") == "lora"


def text(run: Run, key: str) -> str:
    if not run.text(key):
        raise UsageError(f"{run.folder}: its record names no {key}", "say --model NAME and --adapter DIR")
    return run.text(key)
