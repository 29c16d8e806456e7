"""The provisioned place of a recipe on a simulated machine (`envcheck simulate --provisioned`); nothing runs there."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from envcheck.core.errors import StepError
from envcheck.core.facts import Disk, Facts
from envcheck.core.messages import Message, _
from envcheck.core.units import GIB
from envcheck.job.command import TrainingCommand
from installers.recipes.recipe import Recipe
from launch.run.host_stage import HostStage
from launch.targets.clean_environment import CleanEnvironment
from launch.targets.stage import Stage, StageFacts, StageQuestion, Training


def list_versions(recipe: Recipe) -> dict[str, str]:
    """Return the packages of the recipe, each with a version that its specifier names or allows."""
    return {canonicalize_name(each.name.partition("[")[0]): _choose_version(each.specifier) for each in recipe.packages}


def _choose_version(specifier: str) -> str:
    allowed = SpecifierSet(specifier)
    named = [clause.version.removesuffix(".*") for clause in allowed]
    return next((version for version in (*named, "1", "0") if version in allowed), "1")


@dataclass(frozen=True)
class SimulatedStage:
    """`place` is the container or environment that it stands for, `facts` are those of the simulated machine."""

    recipe: Recipe
    place: Stage
    facts: Facts

    @property
    def title(self) -> Message:
        """Name for messages."""
        return _("{place}, simulated", place=self.place.title)

    @property
    def container(self) -> str:
        """Name of the container, "" for none."""
        return self.place.container

    def placeholder_values(self, run: Path | None) -> dict[str, str]:
        """Return the values of the place."""
        return self.place.placeholder_values(run)

    def run_mark(self, run: Path) -> str:
        """Return the path of the run folder at the place."""
        return self.place.run_mark(run)

    def collect_facts(self, asked: StageQuestion) -> StageFacts:
        """Return a place with everything that the recipe installs; without a container, the user's files are real."""
        disk = (self.facts.disks or {}).get(".", Disk())
        own: dict[str, Any] = {"missing": (), "is_verified": True, "packages": list_versions(self.recipe)}
        own |= {"free_bytes": disk.free_bytes}
        if isinstance(self.place, HostStage):
            return self._add_own_files(replace(self.place.collect_facts(asked), **own))
        shm = int((self.recipe.hardware.shm_gib or 0) * GIB) or None
        return StageFacts(
            environment=dict(os.environ),
            sizes=dict.fromkeys((*asked.paths, *asked.data), 1),
            shm_bytes=shm,
            shm_free_bytes=shm,
            ports=dict.fromkeys(asked.ports),
            kernel_ports=(28232, 28232),
            sets=dict.fromkeys(asked.names, "hub"),
            models=dict.fromkeys(asked.models, self._describe_model()),
            values={folder: {} for folder in asked.weights},
            **own,
        )

    def _add_own_files(self, found: StageFacts) -> StageFacts:
        """Return the facts with the files of the recipe, whose paths are relative; absolute ones are the user's."""
        sizes = {path: size if Path(path).is_absolute() else 1 for path, size in found.sizes.items()}
        folders = (path.rpartition("/")[0] for path in sizes if path.endswith("/config.json"))
        models = {folder: self._describe_model() for folder in folders if not Path(folder).is_absolute()}
        data = {path: said for path, said in found.data.items() if Path(path).is_absolute()}
        return replace(found, sizes=sizes, data=data, models={**found.models, **models})

    def _describe_model(self) -> dict[str, Any]:
        size_gib = (self.recipe.weights.size_gib if self.recipe.weights else None) or 0.0
        return {"shards": 1, "size_bytes": int(size_gib * GIB), "flaws": [], "config": {}}

    def start_training(self, command: TrainingCommand, clean: CleanEnvironment, run: Path) -> Training:
        """Raise StepError: there is nothing to run on."""
        raise StepError(
            _("a simulated machine cannot run a training"), _("use --gates or --dry-run on a simulated machine")
        )
