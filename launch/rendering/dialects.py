"""Rewrite a recipe's arguments for the installed version of the upstream; dialects.toml lists the differences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from envcheck.core.toml_file import load_own_record
from installers.recipes.recipe import Recipe, RecipeJob
from launch.rendering.argument_rows import Rows, format_arguments, parse_rows
from launch.rendering.option_schema import Versions, matches_versions

Texts = Mapping[str, str]


@dataclass(frozen=True)
class OptionFlag:
    """Options that replace a flag: those for `there` (the flag is set) and those for `absent`."""

    there: Texts = field(default_factory=dict)
    absent: Texts = field(default_factory=dict)


@dataclass(frozen=True)
class EarlierDialect:
    """Exceptions for some versions of a dialect: options that keep their name, and options to drop with the reason."""

    source: str
    keep: tuple[str, ...] = ()
    drop: Texts = field(default_factory=dict)


@dataclass(frozen=True)
class Dialect:
    """An entry of dialects.toml; the comment at the top of that file explains the fields."""

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
    flags: Mapping[str, OptionFlag] = field(default_factory=dict)
    before: Mapping[str, EarlierDialect] = field(default_factory=dict)
    programs: Mapping[str, Texts] = field(default_factory=dict)
    caution: tuple[str, ...] = ()

    def for_versions(self, installed: Versions) -> Dialect:
        """Return the dialect with the exceptions that apply to the installed versions."""
        earlier = [
            each for where, each in self.before.items() if _are_installed(dict.fromkeys(self.needs, where), installed)
        ]
        kept = {name for each in earlier for name in each.keep}
        gone = {name: why for each in earlier for name, why in each.drop.items()}
        return replace(
            self,
            rename={name: new for name, new in self.rename.items() if name not in kept},
            drop={name: why for name, why in {**self.drop, **gone}.items() if name not in kept},
        )


@cache
def load_dialects() -> tuple[Dialect, ...]:
    """Return the entries of dialects.toml, in the order in which they are tried."""
    return load_own_record(_DialectsFile, Path(__file__).with_name("dialects.toml")).dialects


@dataclass(frozen=True)
class _DialectsFile:
    dialects: tuple[Dialect, ...]


def list_other_names(name: str) -> tuple[str, ...]:
    """Return the names that other versions use for a renamed option."""
    ours = [new for dialect in load_dialects() for new, other in dialect.rename.items() if name in (new, other)]
    theirs = [dialect.rename[new] for dialect in load_dialects() for new in ours if new in dialect.rename]
    return tuple(word for word in dict.fromkeys((*ours, *theirs)) if word != name)


def translate_job(recipe: Recipe, job: RecipeJob, installed: Versions) -> tuple[RecipeJob, Dialect | None]:
    """Return the job rewritten for the installed packages and the dialect used; None if the recipe applies as it is."""
    for dialect in load_dialects():
        if set(dialect.of) & set(job.launcher) and _are_installed(dialect.needs, installed):
            return translate_to_dialect(recipe, job, dialect.for_versions(installed)), dialect
    return job, None


def _are_installed(needs: Texts, installed: Versions) -> bool:
    return all(
        package in installed and matches_versions(installed[package], wanted) for package, wanted in needs.items()
    )


def translate_to_dialect(recipe: Recipe, job: RecipeJob, dialect: Dialect) -> RecipeJob:
    """Return the job with launcher, arguments and environment of this dialect.

    `dialect` has been reduced to the installed versions (`Dialect.for_versions`).
    """
    program = next((word for word in job.launcher if word in dialect.programs), "")
    device = dialect.devices.get(job.device or recipe.device, {})
    nodes = dialect.several if job.nodes > 1 else {}
    options = _translate_options(parse_rows(job.arguments), dialect)
    return replace(
        job,
        launcher=dialect.command or job.launcher,
        arguments=format_arguments(
            {**options, **{key: (value,) for key, value in dialect.programs.get(program, {}).items()}}
        ),
        own_data=format_arguments(_translate_options(parse_rows(job.own_data), replace(dialect, flags={}))),
        environment={**job.environment, **dialect.environment, **device, **nodes},
        requires=tuple(path for path in job.requires if path != program),
        config=dialect.file,
        caution=(*job.caution, *dialect.caution),
    )


def _translate_options(before: Rows, dialect: Dialect) -> Rows:
    found: Rows = {}
    for name, values in before.items():
        if name not in dialect.drop and name not in dialect.flags:
            others = dialect.values.get(name, {})
            found[dialect.rename.get(name, name)] = tuple(others.get(value, value) for value in values)
    for name, flag in dialect.flags.items():
        found |= {key: (value,) for key, value in (flag.there if name in before else flag.absent).items()}
    return found
