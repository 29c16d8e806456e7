"""Where a training runs: on this host (or inside the container that envcheck itself is in), or in the recipe's
container, which is entered from here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

from envcheck.job.command import TrainingCommand
from launch.targets.clean_environment import CleanEnvironment


@dataclass(frozen=True)
class StageQuestion:
    """What is to be looked at there: files, of which `data` are opened as well; folders of models; ports to be bound;
    names of data sets that the file `registry` explains; clones."""

    paths: tuple[str, ...]
    workdir: str
    runs: Path
    data: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    ports: tuple[int, ...] = ()
    registry: str = ""
    names: tuple[str, ...] = ()
    clones: tuple[str, ...] = ()


@dataclass(frozen=True)
class StageFacts:
    """What a training would find there.  `missing` is what provision would do, `obstacle` why nothing can run there;
    `sizes` of the files that the job reads, None for what is not there; `marks` are the run folders of processes that
    run there, by pid; `environment` is what a command finds, `packages` are the versions installed.

    `shm_bytes` is the size of /dev/shm, `memory_bytes` what a limit of the place leaves of the host's memory; `image`
    is the id of the container's; `ports` hold why each cannot be opened, None for free; `kernel_ports` are those that
    the kernel hands out by itself, free and in all; `data`, `sets`, `models`,
    `commits` are launch.programs.place_probe's answers by path.
    """

    environment: Mapping[str, str] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    obstacle: str = ""
    next_step: str = ""
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
    commits: Mapping[str, str] = field(default_factory=dict)


def question(asked: StageQuestion, workdir: str, runs: str) -> dict[str, Any]:
    """For launch.programs.place_probe."""
    return {**asdict(asked), "workdir": workdir, "runs": runs}


def answered(said: Mapping[str, Any]) -> dict[str, Any]:
    """What launch.programs.place_probe found, as fields of a Sight."""
    fields = ("sizes", "free_bytes", "shm_bytes", "shm_free_bytes", "memory_bytes", "data", "sets", "models", "commits")
    return {
        **{name: said[name] for name in fields},
        "environment": {str(name): str(text) for name, text in said["environment"].items()},
        "marks": {int(pid): str(run) for pid, run in said["marks"].items()},
        "ports": {int(port): why for port, why in said["ports"].items()},
        "kernel_ports": tuple(said["kernel_ports"]) if said["kernel_ports"] else None,
    }


class WorkerProcesses(Protocol):
    """The processes of a run: `dead` holds when each worker (by rank) died and its code, None where nobody saw it."""

    dead: dict[int, tuple[float, int | None]]
    peak_bytes: int

    def look(self) -> None: ...

    def living(self) -> bool | None:
        """Whether a worker lives, as far as was looked; None where nobody can tell."""

    def wait(self, seconds: float) -> None:
        """So long, or until a worker dies."""

    def close(self) -> None: ...


class Training(Protocol):
    """A training that was started."""

    @property
    def family(self) -> WorkerProcesses: ...

    def poll(self) -> int | None:
        """The launcher's status once it has ended, minus the signal's number for a killed one."""

    def end(self, save_s: float = 0.0, hurry: Callable[[], bool] = lambda: False) -> None:
        """Nothing of it runs when this returns; what it wrote has come to the run's folder on this host.

        With `save_s` the workers are asked to save and to end by themselves first, for so long or until `hurry`."""

    def outputs(self) -> list[str]:
        """The checkpoint folders that it made."""


class Stage(Protocol):
    """`title` in words; `container` is its name, "" for none."""

    @property
    def title(self) -> str: ...

    @property
    def container(self) -> str: ...

    def values(self, run: Path | None) -> dict[str, str]:
        """What the place fills into the command; without a run the script's own variables stay."""

    def look(self, asked: StageQuestion) -> StageFacts: ...

    def start(self, command: TrainingCommand, clean: CleanEnvironment, run: Path) -> Training:
        """StepError where the first program cannot be started at all."""

    def mark(self, run: Path) -> str:
        """The run's folder as processes there know it."""
