"""The words of the upstream that is installed, where they are not the recipe's: dialects.toml says how they differ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from envcheck.core.toml_file import own_record
from installers.recipes.recipe import Recipe, RecipeJob
from launch.rendering.rows import Rows, arguments, rows
from launch.rendering.schema import Versions, fits

Texts = Mapping[str, str]


@dataclass(frozen=True)
class Flag:
    """What becomes of an option by whether it is there."""

    there: Texts = field(default_factory=dict)
    absent: Texts = field(default_factory=dict)


@dataclass(frozen=True)
class EarlierDialect:
    """What versions within a dialect's want otherwise."""

    source: str
    keep: tuple[str, ...] = ()
    drop: Texts = field(default_factory=dict)


@dataclass(frozen=True)
class Dialect:
    """An entry of dialects.toml, whose head explains the fields."""

    name: str
    source: str
    of: tuple[str, ...]
    needs: Texts
    command: tuple[str, ...] = ()
    file: str = ""
    environment: Texts = field(default_factory=dict)
    several: Texts = field(default_factory=dict)
    devices: Mapping[str, Texts] = field(default_factory=dict)
    rename: Texts = field(default_factory=dict)
    drop: Texts = field(default_factory=dict)
    values: Mapping[str, Texts] = field(default_factory=dict)
    flags: Mapping[str, Flag] = field(default_factory=dict)
    before: Mapping[str, EarlierDialect] = field(default_factory=dict)
    programs: Mapping[str, Texts] = field(default_factory=dict)
    caution: tuple[str, ...] = ()

    def at(self, installed: Versions) -> Dialect:
        """As the installed versions speak it."""
        told = [each for where, each in self.before.items() if _installed(dict.fromkeys(self.needs, where), installed)]
        kept = {name for each in told for name in each.keep}
        gone = {name: why for each in told for name, why in each.drop.items()}
        return replace(
            self,
            rename={name: new for name, new in self.rename.items() if name not in kept},
            drop={name: why for name, why in {**self.drop, **gone}.items() if name not in kept},
        )


@cache
def dialects() -> tuple[Dialect, ...]:
    return own_record(_DialectsFile, Path(__file__).with_name("dialects.toml")).dialects


@dataclass(frozen=True)
class _DialectsFile:
    dialects: tuple[Dialect, ...]


def called(name: str) -> tuple[str, ...]:
    """What an option that was renamed is called in other versions."""
    ours = [new for dialect in dialects() for new, other in dialect.rename.items() if name in (new, other)]
    theirs = [dialect.rename[new] for dialect in dialects() for new in ours if new in dialect.rename]
    return tuple(word for word in dict.fromkeys((*ours, *theirs)) if word != name)


def spoken(recipe: Recipe, job: RecipeJob, installed: Versions) -> tuple[RecipeJob, Dialect | None]:
    """The job in the words of what is installed, and whose words they are; None: as the recipe has it."""
    for dialect in dialects():
        if set(dialect.of) & set(job.launcher) and _installed(dialect.needs, installed):
            return translated(recipe, job, dialect.at(installed)), dialect
    return job, None


def _installed(needs: Texts, installed: Versions) -> bool:
    return all(package in installed and fits(installed[package], wanted) for package, wanted in needs.items())


def translated(recipe: Recipe, job: RecipeJob, dialect: Dialect) -> RecipeJob:
    program = next((word for word in job.launcher if word in dialect.programs), "")
    device = dialect.devices.get(job.device or recipe.device, {})
    nodes = dialect.several if job.nodes > 1 else {}
    made = _options(rows(job.arguments), dialect)
    return replace(
        job,
        launcher=dialect.command or job.launcher,
        arguments=arguments({**made, **{key: (value,) for key, value in dialect.programs.get(program, {}).items()}}),
        own_data=arguments(_options(rows(job.own_data), replace(dialect, flags={}))),
        environment={**job.environment, **dialect.environment, **device, **nodes},
        requires=tuple(path for path in job.requires if path != program),
        config=dialect.file,
        caution=(*job.caution, *dialect.caution),
    )


def _options(before: Rows, dialect: Dialect) -> Rows:
    found: Rows = {}
    for name, values in before.items():
        if name not in dialect.drop and name not in dialect.flags:
            others = dialect.values.get(name, {})
            found[dialect.rename.get(name, name)] = tuple(others.get(value, value) for value in values)
    for name, flag in dialect.flags.items():
        found |= {key: (value,) for key, value in (flag.there if name in before else flag.absent).items()}
    return found
