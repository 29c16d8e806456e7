"""Who runs a training: this machine itself, or the engine that the site has.  `envcheck train --on` names a row.

To add one: its row in ENGINES, and a module with `train(request, own, shown) -> int`, imported only when it is named.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

import click

from envcheck.core.errors import UsageError

if TYPE_CHECKING:
    from launch.job.request import Request

F = TypeVar("F", bound=Callable[..., Any])
Own = Mapping[str, Any]  # the values of an engine's own options, by their names


@dataclass(frozen=True)
class Shown:
    """Nothing is started where one of these is said: only shown, shown as a script, written into a folder."""

    dry_run: bool = False
    as_script: bool = False
    write: Path | None = None


class Trains(Protocol):
    """What an engine's module has."""

    def train(self, request: Request, own: Own, shown: Shown) -> int: ...


@dataclass(frozen=True)
class Option:
    """As click.option has it; kept, so that its name is known."""

    word: str
    more: Mapping[str, Any]

    @property
    def name(self) -> str:
        return self.word.removeprefix("--").replace("-", "_")


@dataclass(frozen=True)
class Engine:
    """`module` is "" for this machine itself; `options` are those that only this engine knows."""

    title: str
    module: str = ""
    options: tuple[Option, ...] = ()


def _option(word: str, **more: Any) -> Option:
    return Option(word, more)


SLURM = (
    _option("--partition", multiple=True, metavar="NAME", help="Slurm: this partition; twice for mixed cards."),
    _option("--time", metavar="TIME", help="Slurm: at most so long, as sbatch says it: 90, 8:00:00, 2-12."),
    _option("--account", metavar="NAME", help="Slurm: who pays for it."),
    _option("--gres", multiple=True, metavar="NAME:N", help="Slurm: the cards of a node, where sinfo does not tell."),
    _option("--sbatch", multiple=True, metavar="OPTION", help="Slurm: a further option of sbatch; several times."),
    _option("--requeue-without-bad", is_flag=True, help="Slurm: after a failed look, again without the bad nodes."),
    _option("--drain", is_flag=True, help="Slurm: operators' jobs take bad nodes out of use, with the reason."),
)
K8S = (
    _option("--namespace", metavar="NAME", help="Kubernetes: in this namespace, not the context's."),
    _option("--context", metavar="NAME", help="Kubernetes: this context of the kubeconfig."),
    _option("--job-name", metavar="NAME", help="Kubernetes: the job's name, not the recipe's with the time."),
    _option("--image", multiple=True, metavar="[ROLE=]REF", help="Kubernetes: this image, not the recipe's."),
    _option("--storage", metavar="CLAIM|/FOLDER", help="Kubernetes: where the recipe's own folders stand."),
    _option("--resource", multiple=True, metavar="[ROLE=]NAME[:N]", help="Kubernetes: what the site calls the cards."),
    _option("--queue", metavar="NAME", help="Kubernetes: this queue of Volcano."),
    _option("--no-gang", is_flag=True, help="Kubernetes: without Volcano; the nodes may start one by one."),
)

ENGINES: dict[str, Engine] = {
    "local": Engine("this machine"),
    "slurm": Engine("Slurm", "launch.backends.slurm.session", SLURM),
    "k8s": Engine("Kubernetes", "launch.backends.k8s.session", K8S),
}
_ON = _option(
    "--on",
    type=click.Choice(list(ENGINES)),
    default="local",
    show_default=True,
    help="Who runs it: this machine itself, or the engine that the site has.",
)


def options(command: F) -> F:
    """--on, and the options of each engine behind it."""
    every = [_ON, *(option for engine in ENGINES.values() for option in engine.options)]
    for option in reversed(every):
        command = click.option(option.word, **option.more)(command)
    return command


def split(on: str, asked: dict[str, Any]) -> tuple[Own, dict[str, Any]]:
    """The options of the engine that was named, and those that all know.  UsageError for another engine's."""
    own: dict[str, Any] = {}
    for word, engine in ENGINES.items():
        for option in engine.options:
            value = asked.pop(option.name)
            if word == on:
                own[option.name] = value
            elif value:
                raise UsageError(f"{option.word} is for {engine.title}", f"say --on {word}, or leave it out")
    return own, asked


def module(on: str) -> Trains | None:
    """None for this machine itself."""
    found = ENGINES[on].module
    return cast(Trains, importlib.import_module(found)) if found else None
