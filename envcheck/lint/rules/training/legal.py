"""Values of which there are only so many: data/legal.toml has them for each option and program."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from envcheck.core.lint.context import LintContext
from envcheck.core.lint.given_options import GivenOption
from envcheck.core.lint.model import Fix, Remark, Word
from envcheck.core.lint.remarks import fail, near, swap, warn
from envcheck.core.lint.training_job import TrainingJob
from envcheck.core.toml_file import own_record
from envcheck.lint.context import tables
from envcheck.lint.rules.training.option_schemas import kit_of
from envcheck.scripts import programs
from launch.rendering import schema

_LEFT = re.compile(r"\$|\{\{|^\s*$")  # somebody else fills it in, or it is empty: the default


@dataclass(frozen=True)
class Legal:
    """A row of the table; `values` in the order in which they are told."""

    names: tuple[str, ...]
    tools: tuple[str, ...]
    values: tuple[str, ...]
    source: str
    folds: bool = False
    parts: bool = False
    path: bool = False
    grows: bool = False
    says: str = ""

    def takes(self, text: str) -> bool:
        if self.path and re.search(r"[/{]|\.\w+$", text):
            return True
        words = text.split() if self.parts else [text]
        known = {value.lower() for value in self.values} if self.folds else set(self.values)
        return all((word.lower() if self.folds else word) in known for word in words)


@dataclass(frozen=True)
class LegalFile:
    """data/legal.toml; `alias`: other spellings of a value → the programs' own."""

    options: tuple[Legal, ...]
    alias: Mapping[str, str]


def rows() -> tuple[Legal, ...]:
    return _file().options


@cache
def _file() -> LegalFile:
    return own_record(LegalFile, tables.FOLDER / "legal.toml")


def values(context: LintContext) -> Iterator[Remark]:
    """A value is told where none of the programs that may be meant takes it."""
    for job in context.jobs:
        kit = kit_of(context, job)
        tools = programs.tools(job) or (tuple({each.package for each in kit.known}) if kit else ())
        for given in job.options if tools and job.option("external_plugins") is None else ():
            having = _having(tools, given.plain)
            found = [row for tool in having for row in rows() if tool in row.tools and given.plain in row.names]
            if {tool for row in found for tool in row.tools} >= set(having):
                yield from _judged(job, given, found)


def _having(tools: tuple[str, ...], name: str) -> tuple[str, ...]:
    """Those of the programs whose lists have the option; all, where none has."""
    lists = {each.program.partition(" ")[0].removesuffix("-cli") for each in schema.lists() if name in each.names}
    return tuple(tool for tool in tools if tool in lists) or tools


def _judged(job: TrainingJob, given: GivenOption, found: list[Legal]) -> Iterator[Remark]:
    text = (given.value or "").strip()
    if given.value is None or _LEFT.search(text) or any(row.takes(text) for row in found):
        return
    if any(tables.renamed(tool).get(f"--{given.plain} {text}") for row in found for tool in row.tools):
        return  # told by options.old_value
    if given.key and _entry_kind(job, given) in ("bool", "null"):
        return  # no without quotes is false to YAML 1.1, which the trainers take for the word
    all_ = tuple(dict.fromkeys(value for row in found for value in row.values))
    grows = any(row.grows for row in found)
    meant = _meant(text, all_, 0.85 if grows else 0.6)  # a newer version's own word is no misspelling
    place = given.values[0]
    if grows:
        if meant:
            lists = found[0].source.partition(",")[0].removeprefix("wheel ")
            seen = f"{given.plain} has no value {text[:40]} in the lists of {lists}"
            yield warn(place, seen, f"Write {meant}.", _mended(place, text, meant))
        return
    why = found[0].says or "the program ends there"
    seen = f"{given.plain} has no value {text[:40]}: {why}"
    yield fail(place, seen, _advice(meant, all_, found[0]), _mended(place, text, meant))


def _entry_kind(job: TrainingJob, given: GivenOption) -> str:
    entries = job.config.entries if job.config else []
    return next((entry.kind for entry in entries if entry.start == given.start), "str")


def _meant(text: str, all_: tuple[str, ...], cutoff: float) -> str:
    """Another spelling of the same word first, then the nearest."""
    plain = {re.sub(r"[-_ ]", "", value).lower(): value for value in all_}
    other = _file().alias.get(text.lower(), "")
    same = plain.get(re.sub(r"[-_ ]", "", text).lower(), "")
    small = {value.lower(): value for value in all_}
    return same or (other if other in all_ else "") or small.get(near(text.lower(), frozenset(small), cutoff), "")


def _mended(place: Word, text: str, meant: str) -> Fix | None:
    """Only what is the same word in another spelling: stage4 may mean any stage."""
    same = re.sub(r"[-_ ]", "", text).lower() == re.sub(r"[-_ ]", "", meant).lower()
    other = _file().alias.get(text.lower(), "") == meant
    written = place.raw in ("", place.text)
    return swap(place, meant) if meant and written and (same or other) else None


def _advice(meant: str, all_: tuple[str, ...], row: Legal) -> str:
    if not all_:
        return "The path of a JSON file, as ds_z2.json."
    some = " | ".join(all_[:14])
    more = f"{some}, or a file." if row.path else f"{some}."
    return f"{meant} is the nearest: one of {more}" if meant else f"One of {more}"
