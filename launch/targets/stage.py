"""The interface of places where a training runs.

These are this host (or the container that envcheck runs in) and the recipe's container.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

from envcheck.core.messages import NOTHING, Message, restore
from envcheck.job.command import TrainingCommand
from launch.targets.clean_environment import CleanEnvironment


@dataclass(frozen=True)
class StageQuestion:
    """What to inspect at the place.

    `paths` are files, `data` those whose contents are checked; `models` are folders with weights, `weights` those whose
    values are sampled; `ports` are tested by binding them; `names` are data sets in the file `registry`; `clones` are
    git checkouts; `checkpoints` are folders to resume from.
    """

    paths: tuple[str, ...]
    workdir: str
    runs: Path
    data: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    weights: tuple[str, ...] = ()
    ports: tuple[int, ...] = ()
    registry: str = ""
    names: tuple[str, ...] = ()
    clones: tuple[str, ...] = ()
    checkpoints: tuple[str, ...] = ()


@dataclass(frozen=True)
class StageFacts:
    """Facts about the place.

    `missing` are the steps that provision would still run; `is_verified`: the place has a record of what envcheck
    installed and verified there, so that nothing missing means that all is installed; `obstacle` is the reason why
    nothing can run there and `next_step` its remedy. `sizes` are those of the job's files in bytes, None for
    missing files. `marks` maps pids to the run folders of active trainings. `environment` are the variables of a
    new process, `packages` the installed versions. `shm_bytes` is the size of /dev/shm, `memory_bytes` the memory
    left below the place's limit. `image` is the id of the container's image. `ports` maps ports to the error when
    binding them, None for free; `kernel_ports` are (free, total) ephemeral ports. `data`, `sets`, `models`,
    `values`, `commits` and `checkpoints` are results of launch.programs.place_probe by path.
    """

    environment: Mapping[str, str] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    is_verified: bool = True
    obstacle: Message = NOTHING
    next_step: Message = NOTHING
    sizes: Mapping[str, int | None] = field(default_factory=dict)
    free_bytes: int | None = None
    marks: Mapping[int, str] = field(default_factory=dict)
    python: str = ""
    packages: Mapping[str, str] = field(default_factory=dict)
    shm_bytes: int | None = None
    shm_free_bytes: int | None = None
    memory_bytes: int | None = None
    image: str = ""
    ports: Mapping[int, str | None] = field(default_factory=dict)
    kernel_ports: tuple[int, int] | None = None
    data: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    sets: Mapping[str, str] = field(default_factory=dict)
    models: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    values: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    commits: Mapping[str, str] = field(default_factory=dict)
    checkpoints: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def build_probe_request(asked: StageQuestion, workdir: str, runs: str) -> dict[str, Any]:
    """Return the request for launch.programs.place_probe."""
    return {**asdict(asked), "workdir": workdir, "runs": runs}


def parse_probe_answer(said: Mapping[str, Any]) -> dict[str, Any]:
    """Return the result of launch.programs.place_probe as fields of StageFacts."""
    fields = (
        *("sizes", "free_bytes", "shm_bytes", "shm_free_bytes", "memory_bytes"),
        *("sets", "models", "checkpoints", "commits"),
    )
    return {
        **{name: said[name] for name in fields},
        "data": {path: _restore_texts(found) for path, found in said["data"].items()},
        "values": {path: _restore_texts(found) for path, found in said["values"].items()},
        "environment": {str(name): str(text) for name, text in said["environment"].items()},
        "marks": {int(pid): str(run) for pid, run in said["marks"].items()},
        "ports": {int(port): why for port, why in said["ports"].items()},
        "kernel_ports": tuple(said["kernel_ports"]) if said["kernel_ports"] else None,
    }


def _restore_texts(found: Mapping[str, Any]) -> dict[str, str]:
    return {kind: restore_text(found, kind) for kind in ("seen", "flaw", "error") if kind in found}


def restore_text(values: Mapping[str, Any], name: str) -> Message:
    """Return the text `name` as the message described in NAME_message, or as a quotation without a description."""
    return restore(str(values[name]), values.get(f"{name}_message"))


class WorkerProcesses(Protocol):
    """The processes of a run.

    `dead` maps the rank of each ended worker to (time in seconds since 1970, exit code or None if unknown);
    `peak_bytes` is the largest memory use of all processes together.
    """

    dead: dict[int, tuple[float, int | None]]
    peak_bytes: int

    def update_workers(self) -> None:
        """Look for new and ended workers, and measure the memory."""

    def has_living_worker(self) -> bool | None:
        """Return whether a worker was alive at the last update; None if unknown."""

    def wait_for_death(self, seconds: float) -> None:
        """Wait until a worker ends, at most for `seconds`."""

    def close(self) -> None:
        """Release file descriptors."""


class Training(Protocol):
    """A training that has been started."""

    @property
    def family(self) -> WorkerProcesses:
        """The processes of the training."""

    def poll(self) -> int | None:
        """Return the launcher's exit status, negative for a signal; None while it runs."""

    def describe_processes(self) -> dict[str, Any]:
        """Return what finds the training again without its supervisor, for the record."""

    def end_training(self, save_s: float = 0.0, hurry: Callable[[], bool] = lambda: False) -> None:
        """End all processes and copy their output to the run folder on this host.

        With `save_s` > 0 the workers are first asked to save a checkpoint and to exit, for at most `save_s` seconds or
        until `hurry()` is true.
        """

    def list_checkpoints(self) -> list[str]:
        """Return the checkpoint folders of the training."""


class Stage(Protocol):
    """A place where trainings run."""

    @property
    def title(self) -> str:
        """Name for messages, such as "container NAME"."""

    @property
    def container(self) -> str:
        """Name of the container, "" for none."""

    def placeholder_values(self, run: Path | None) -> dict[str, str]:
        """Return values for placeholders of the command; without a run those of output and log folders are missing."""

    def collect_facts(self, asked: StageQuestion) -> StageFacts:
        """Inspect the place."""

    def start_training(self, command: TrainingCommand, clean: CleanEnvironment, run: Path) -> Training:
        """Start the launcher; StepError if it cannot be executed."""

    def run_mark(self, run: Path) -> str:
        """Return the path of the run folder at the place; it marks the run's processes in $ENVCHECK_RUN."""
