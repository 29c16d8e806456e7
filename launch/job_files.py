"""`envcheck train --write FOLDER`: write the files of a job for a launch without envcheck; nothing is started."""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path

from envcheck.core import local_files
from envcheck.core.errors import UsageError, describe_os_error
from envcheck.core.messages import _, join
from envcheck.job.command import TrainingCommand, render_job
from envcheck.job.command_values import fill_values
from envcheck.job.local_facts import collect_facts_here
from envcheck.job.resolve import resolve
from envcheck.job.shell_script import render_script
from installers.recipes import catalogue
from installers.recipes.docker_cli import HERE
from installers.recipes.recipe import RecipeJob
from launch.preview import as_values
from launch.rendering import yaml_file
from launch.rendering.argument_rows import parse_rows
from launch.targets.train_request import TrainRequest

STAGE = re.compile(r"(?:zero|z)[-_]?([0-3])")


def write_job(request: TrainRequest, folder: Path) -> list[str]:
    """Write the files of the job and return their paths; --yes overwrites different files."""
    job = resolve(request, catalogue.load_all(request.recipes), collect_facts_here(request), folder=HERE)
    made = build_files(render_job(job, fill_values(request, job.recipe, None)), job.method)
    write_files(folder, made, request.yes)
    return [str(folder / name) for name in made]


def write_files(folder: Path, made: Mapping[str, str], over: bool) -> None:
    """Write name → text into the folder; UsageError, before any change, for different existing files unless `over`.

    UsageError as well if the folder cannot be written to."""
    try:
        _write_new_files(folder, made, over)
    except OSError as err:
        words = _("cannot write to {folder}: {reason}", folder=folder, reason=describe_os_error(err))
        raise UsageError(words, _("choose a writable folder with --write")) from None


def _write_new_files(folder: Path, made: Mapping[str, str], over: bool) -> None:
    differ = [name for name, text in made.items() if _read_existing(folder / name) not in (None, text)]
    if differ and not over:
        raise UsageError(
            _(
                "{folder} already contains different files with these names: {differ}",
                folder=folder,
                differ=join(", ", differ),
            ),
            _("choose another folder, or overwrite them with --yes"),
        )
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in made.items():
        path = folder / name  # a symbolic link is replaced, not followed
        local_files.replace_file(path, text.encode(), 0o755 if path.suffix == ".sh" else 0o644)


def build_files(command: TrainingCommand, job: RecipeJob) -> dict[str, str]:
    """Return name → text: script, command, option files, and a DeepSpeed configuration if the job uses one."""
    found = {"run.sh": render_script(command), "command.json": json.dumps(as_values(command), indent=1) + "\n"}
    found |= {Path(path).name: text for path, text in command.files.items()}
    if not job.config and any(word.startswith("--") for word in command.arguments):
        found["options.yaml"] = _render_options(command)
    stage = STAGE.search(" ".join(parse_rows(job.arguments).get("deepspeed", ())).lower())
    if stage:
        found["deepspeed.json"] = json.dumps(build_deepspeed_config(int(stage[1])), indent=1) + "\n"
    return found


def _render_options(command: TrainingCommand) -> str:
    """Return the options as YAML; options with values that only run.sh knows are comments."""
    every = parse_rows(command.arguments)
    open_ = [f"{{{token}}}" for token in command.missing]
    later = {name for name, words in every.items() if any(token in word for word in words for token in open_)}
    text = yaml_file.render_yaml({n: v for n, v in every.items() if n not in later}, command.title)
    return text + "".join(f"# {name}: {' '.join(every[name])}  (run.sh fills it in)\n" for name in sorted(later))


def build_deepspeed_config(stage: int) -> Mapping[str, object]:
    """Return a DeepSpeed configuration for a ZeRO stage (0 to 3); transformers fills in the "auto" values."""
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


def _read_existing(path: Path) -> str | None:
    """Return the text of the file, None if missing, "" if it is not a UTF-8 text file."""
    if not path.exists() and not path.is_symlink():
        return None
    try:
        return path.read_text(encoding="utf-8") if path.is_file() else ""
    except UnicodeDecodeError:
        return ""
