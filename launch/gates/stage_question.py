"""Build the question of the gates to the place where the job runs: files, models and ports to inspect."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from envcheck.core.facts import Facts
from envcheck.job.command import TrainingCommand
from installers.recipes.catalogue import TALKS
from installers.recipes.recipe import Recipe, RecipeJob
from launch.gates.endpoints import find_port_span
from launch.targets.stage import StageQuestion

FILES = (".jsonl", ".json", ".parquet", ".txt", ".csv", ".tsv", ".arrow", ".gz", ".zst", ".bin", ".npy")
CONFIG, REGISTRY = "config.json", "dataset_info.json"  # REGISTRY: the data set list of LLaMA-Factory


def build_stage_question(
    recipe: Recipe,
    job: RecipeJob,
    made: TrainingCommand,
    device: str,
    facts: Facts,
    runs: Path,
    port: int | None = None,
    checkpoint: str = "",
) -> StageQuestion:
    """Return what to inspect for this job; `port` is the launcher's port on this node, None if it opens none."""
    data = tuple(path for path in made.data if is_data_file(path, made.requires))
    first, count = find_port_span(recipe, job, made, device, facts) or (0, 0)
    named = (path for path in made.requires if PurePosixPath(path).name == REGISTRY)
    return StageQuestion(
        paths=(*data, *made.requires, *made.scripts),
        workdir=made.workdir,
        runs=runs,
        data=tuple(dict.fromkeys((*data, *(p for p in made.requires if PurePosixPath(p).suffix == ".jsonl")))),
        weights=find_trained_folders(made) if job.method in TALKS else (),
        models=tuple(str(PurePosixPath(p).parent) for p in made.requires if PurePosixPath(p).name == CONFIG),
        ports=(*((port,) if port is not None else ()), *(n for n in range(first, first + count) if 0 < n < 1 << 16)),
        registry=next(named, ""),
        names=tuple(path for path in made.data if path not in data),
        checkpoints=(checkpoint,) if checkpoint else (),
        clones=tuple(checkout.directory for checkout in recipe.checkouts),
    )


def find_trained_folders(made: TrainingCommand) -> tuple[str, ...]:
    """Return the folders on the command line with required files: the checkpoint of a chat."""
    folders = (path.rpartition("/")[0] for path in made.requires)
    return tuple(dict.fromkeys(folder for folder in folders if folder and folder in made.argv))


def is_data_file(path: str, required: Iterable[str] = ()) -> bool:
    """Whether `path` is a data file rather than the name of a data set that the framework resolves."""
    return path.startswith(("/", "~", "./", "../")) or path in required or PurePosixPath(path).suffix.lower() in FILES
