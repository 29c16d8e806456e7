"""`envcheck train --write FOLDER`: a job as files, for those who launch by themselves.  Nothing is started."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

from envcheck.core.errors import EnvcheckError, UsageError
from envcheck.job.command import TrainingCommand, render_job
from envcheck.job.here import collect_facts_here
from envcheck.job.resolve import resolve
from envcheck.job.script import script
from envcheck.job.values import fill_values
from installers.recipes import catalogue
from installers.recipes.docker_cli import HERE
from installers.recipes.recipe import RecipeJob
from launch.preview import as_values
from launch.rendering import yaml_file
from launch.rendering.rows import rows
from launch.targets.request import TrainRequest

STAGE = re.compile(r"(?:zero|z)[-_]?([0-3])")


def write(request: TrainRequest, folder: Path) -> list[str]:
    """The paths of the files of what was asked for, which are there now; --yes replaces what differs."""
    job = resolve(request, catalogue.load_all(request.recipes), collect_facts_here(request), folder=HERE)
    made = contents(render_job(job, fill_values(request, job.recipe, None)), job.method)
    try:
        put(folder, made, request.yes)
    except OSError as err:
        words = f"{folder}: cannot be written: {(err.strerror or str(err)).lower()}"
        raise EnvcheckError(words, "name a folder of your own with --write") from None
    return [str(folder / name) for name in made]


def put(folder: Path, made: Mapping[str, str], over: bool) -> None:
    """UsageError where a file is there and is another, unless `over`; then nothing is written."""
    differ = [name for name, text in made.items() if _there(folder / name) not in (None, text)]
    if differ and not over:
        raise UsageError(
            f"{folder} holds other files of these names: {', '.join(differ)}", "name another folder, or say --yes"
        )
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in made.items():
        _put(folder / name, text)


def contents(command: TrainingCommand, job: RecipeJob) -> dict[str, str]:
    """Name → text of everything that the job is; a file of options for every upstream that takes one."""
    found = {"run.sh": script(command), "command.json": json.dumps(as_values(command), indent=1) + "\n"}
    found |= {Path(path).name: text for path, text in command.files.items()}
    if not job.config and any(word.startswith("--") for word in command.arguments):
        found["options.yaml"] = _options(command)
    stage = STAGE.search(" ".join(rows(job.arguments).get("deepspeed", ())).lower())
    if stage:
        found["deepspeed.json"] = json.dumps(deepspeed(int(stage[1])), indent=1) + "\n"
    return found


def _options(command: TrainingCommand) -> str:
    """The options as keys; what only the script knows stays a comment that names its variable."""
    every = rows(command.arguments)
    open_ = [f"{{{token}}}" for token in command.missing]
    later = {name for name, words in every.items() if any(token in word for word in words for token in open_)}
    text = yaml_file.text({n: v for n, v in every.items() if n not in later}, command.title)
    return text + "".join(f"# {name}: {' '.join(every[name])}  (run.sh fills it in)\n" for name in sorted(later))


def deepspeed(stage: int) -> Mapping[str, object]:
    """A configuration of ZeRO that leaves every size to the trainer ("auto", as transformers fills it in)."""
    zero: dict[str, object] = {"stage": stage}
    if stage:
        zero |= {"contiguous_gradients": True, "overlap_comm": stage > 1}
    if stage == 3:
        zero |= {"stage3_gather_16bit_weights_on_model_save": True}
    auto = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps", "gradient_clipping")
    return {
        **dict.fromkeys(auto, "auto"),
        "zero_allow_untested_optimizer": True,
        "bf16": {"enabled": "auto"},
        "fp16": {"enabled": "auto"},
        "zero_optimization": zero,
    }


def _there(path: Path) -> str | None:
    """What is in the file; None where there is none, and "" for what is no text of ours."""
    if not path.exists() and not path.is_symlink():
        return None
    try:
        return path.read_text(encoding="utf-8") if path.is_file() else ""
    except UnicodeDecodeError:
        return ""


def _put(path: Path, text: str) -> None:
    """Under a temporary name, then renamed: a link is replaced and never written through."""
    fresh = path.with_name(f".{path.name}.new")
    fresh.unlink(missing_ok=True)
    with fresh.open("x", encoding="utf-8") as file:
        file.write(text)
    fresh.chmod(0o755 if path.suffix == ".sh" else 0o644)
    fresh.replace(path)
