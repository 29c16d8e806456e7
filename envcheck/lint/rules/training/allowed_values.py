"""Rules about options with a fixed set of values, from data/legal.toml, by option and program."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from envcheck.core.lint.context import LintContext
from envcheck.core.lint.given_options import GivenOption
from envcheck.core.lint.remark_builders import fail, find_similar_name, replace_span, warn
from envcheck.core.lint.script_model import Remark, ShellWord, TextFix
from envcheck.core.lint.training_job import TrainingJob
from envcheck.core.messages import Message, _, fill
from envcheck.core.toml_file import load_own_record
from envcheck.lint.context import name_tables
from envcheck.lint.rules.training.constraints import ProgramCall, find_misread_texts, list_program_calls
from envcheck.lint.rules.training.megatron_options import find_rejected_values
from envcheck.lint.rules.training.option_schemas import find_checkout_words, find_program_options
from envcheck.scripts import programs
from launch.rendering import option_schema

_LEFT = re.compile(r"\$|\{\{|^\s*$")  # set elsewhere, or empty: the default


@dataclass(frozen=True)
class AllowedValues:
    """A row of the table; `values` in the order in which they are shown.

    `tools` are packages with lists of their options, `programs` known programs.
    """

    names: tuple[str, ...]
    values: tuple[str, ...]
    source: str
    tools: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    folds: bool = False
    parts: bool = False
    path: bool = False
    grows: bool = False
    says: str = ""

    def accepts_value(self, text: str) -> bool:
        if self.path and re.search(r"[/{]|\.\w+$", text):
            return True
        words = text.split() if self.parts else [text]
        known = {value.lower() for value in self.values} if self.folds else set(self.values)
        return all((word.lower() if self.folds else word) in known for word in words)


@dataclass(frozen=True)
class AllowedValuesFile:
    """data/legal.toml; `alias`: other spellings of a value → the program's own."""

    options: tuple[AllowedValues, ...]
    alias: Mapping[str, str]


def load_rows() -> tuple[AllowedValues, ...]:
    return _load_file().options


@cache
def _load_file() -> AllowedValuesFile:
    return load_own_record(AllowedValuesFile, name_tables.FOLDER / "legal.toml")


# Options with one path in all trainers.
_ONE_PATH = ("model", "model_name_or_path", "output_dir", "cache_dir", "load", "save", "tokenizer_name_or_path")


_LITERAL = re.compile(r"""'\$(?:\{\w+\}|\w+)(?:/[^'$]*)?'|["']~/[^"'$]*["']""")


def find_wrong_quotes(context: LintContext) -> Iterator[Remark]:
    """Find values that quotes change: a path with blanks without them, a variable or ~ in them."""
    for job in context.jobs:
        if job.is_training:
            yield from _judge_quotes(context, job)


def _judge_quotes(context: LintContext, job: TrainingJob) -> Iterator[Remark]:
    for given in job.options:
        for word in given.values if not given.key else ():
            if _LITERAL.fullmatch(word.raw) and not ("$" in word.raw and _is_expanded_before(context, job, word)):
                seen = _("the quotes keep {text} as it is: the program receives these characters", text=word.text[:40])
                yield fail(word, seen, _("Write it in double quotes, and ~ outside of quotes."))
        texts = [word.known_text or "" for word in given.values]
        if given.python_name in _ONE_PATH and not given.key and len(texts) > 1 and all(texts) and "/" in texts[0]:
            seen = _("--{name} takes one value, but {count} follow it", name=given.name, count=len(texts))
            yield fail(given.values[1], seen, _("Put a path that contains blanks in quotes."))


def _is_expanded_before(context: LintContext, job: TrainingJob, word: ShellWord) -> bool:
    """Whether something replaces variables before the shell that reads these quotes: compose, or a shell around it."""
    container = context.find_container(job)
    around = [each for command in job.script.commands for each in command.words if each.raw.startswith('"')]
    return bool(container and container.service) or any(
        each.start < word.start and word.end < each.end for each in around
    )


def find_unknown_values(context: LintContext) -> Iterator[Remark]:
    """Find values that none of the possible programs accepts."""
    yield from find_rejected_values(context)
    calls = list(list_program_calls(context))
    yield from find_misread_texts(calls)
    yield from _find_values_by_program(calls)
    yield from _find_broken_json(context, calls)
    for job in context.jobs:
        kit = find_program_options(context, job)
        tools = programs.find_packages(job) or (tuple({each.package for each in kit.known}) if kit else ())
        if programs.find_switch(job):
            continue
        for given in job.options if tools and job.find_option("external_plugins") is None else ():
            having = _list_tools_with_option(tools, given.python_name)
            found = [
                row for tool in having for row in load_rows() if tool in row.tools and given.python_name in row.names
            ]
            if any(given.value in find_checkout_words(context.machine.folder, tool) for tool in tools):
                continue
            is_switch = given.key and found and _find_entry_kind(job, given) in ("bool", "null")
            # YAML 1.1 reads an unquoted no as false, which the trainers accept
            if {tool for row in found for tool in row.tools} >= set(having) and not is_switch:
                yield from _judge_value(given, found)


_TRANSFORMERS = "transformers' TrainingArguments"
# Programs and common parsers that read the value as JSON if it starts with a brace.
_JSON = dict.fromkeys(
    ("gradient_checkpointing_kwargs", "lr_scheduler_kwargs", "fsdp_config", "accelerator_config"),
    ("LLaMA-Factory", "ms-swift", "trl", _TRANSFORMERS),
) | {"model_kwargs": ("ms-swift",)}


def _find_broken_json(context: LintContext, calls: Sequence[ProgramCall]) -> Iterator[Remark]:
    known = [(call.program, call.options) for call in calls]
    for program, options in (*known, *((name_tables.find_dialect(job), job.options) for job in context.jobs)):
        for given in options if program else ():
            text = " ".join(word.text for word in given.values)
            is_read = program in _JSON.get(given.python_name, ()) and all(word.is_known for word in given.values)
            if is_read and not given.key and text.startswith("{") and not _is_json(text):
                seen = _("{option} is not JSON: {text}", option=given.python_name, text=text[:60])
                do = _("Put it in single quotes, and its names in double quotes.")
                yield fail(given.values[0], seen, do)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _find_values_by_program(calls: Sequence[ProgramCall]) -> Iterator[Remark]:
    """Find values that a program does not accept, of programs without a list of their options."""
    rows = [row for row in load_rows() if row.programs]
    for call in calls:
        for row in rows:
            for name in row.names if call.program in row.programs else ():
                given = call.find(name)
                if given is not None and given.value:
                    yield from _judge_value(given, [row], 0.8)


def _list_tools_with_option(tools: tuple[str, ...], name: str) -> tuple[str, ...]:
    """The programs whose lists have the option; all, if none has."""
    lists = {
        each.program.partition(" ")[0].removesuffix("-cli")
        for each in option_schema.load_schemas()
        if name in each.names
    }
    return tuple(tool for tool in tools if tool in lists) or tools


def _judge_value(given: GivenOption, found: list[AllowedValues], least: float = 0.85) -> Iterator[Remark]:
    """Judge a value; one of a newer version is less similar than `least` to those that are listed."""
    text = (given.value or "").strip()
    if given.value is None or _LEFT.search(text) or any(row.accepts_value(text) for row in found):
        return
    if any(
        name_tables.load_renamed_options(tool).get(f"--{given.python_name} {text}")
        for row in found
        for tool in row.tools
    ):
        return  # reported by options.old_value
    all_ = tuple(dict.fromkeys(value for row in found for value in row.values))
    grows = any(row.grows for row in found)
    meant = _find_nearest_value(text, all_, least if grows else 0.6)
    place = given.values[0]
    if grows:
        if meant:
            lists = found[0].source.partition(",")[0].removeprefix("wheel ")
            seen = _(
                "{lists} does not list the value {value} for {option}",
                option=given.python_name,
                value=text[:40],
                lists=lists,
            )
            yield warn(place, seen, _("Write {meant}.", meant=meant), _make_fix(place, text, meant))
        return
    why = fill(found[0].says) if found[0].says else _("the program exits")
    seen = _("{option} does not accept {value}: {why}", option=given.python_name, value=text[:40], why=why)
    yield fail(place, seen, _format_advice(meant, all_, found[0]), _make_fix(place, text, meant))


def _find_entry_kind(job: TrainingJob, given: GivenOption) -> str:
    entries = job.config.entries if job.config else []
    return next((entry.kind for entry in entries if entry.start == given.start), "str")


def _find_nearest_value(text: str, all_: tuple[str, ...], cutoff: float) -> str:
    """Another spelling of the same word first, then the nearest value."""
    plain = {re.sub(r"[-_ ]", "", value).lower(): value for value in all_}
    other = _load_file().alias.get(text.lower(), "")
    same = plain.get(re.sub(r"[-_ ]", "", text).lower(), "")
    small = {value.lower(): value for value in all_}
    return (
        same
        or (other if other in all_ else "")
        or small.get(find_similar_name(text.lower(), frozenset(small), cutoff), "")
    )


def _make_fix(place: ShellWord, text: str, meant: str) -> TextFix | None:
    """Fix only other spellings of the same word: stage4 may mean any stage."""
    same = re.sub(r"[-_ ]", "", text).lower() == re.sub(r"[-_ ]", "", meant).lower()
    other = _load_file().alias.get(text.lower(), "") == meant
    written = place.raw in ("", place.text)
    return replace_span(place, meant) if meant and written and (same or other) else None


def _format_advice(meant: str, all_: tuple[str, ...], row: AllowedValues) -> Message:
    if not all_:
        return _("Use the path of a JSON file, such as ds_z2.json.")
    values = " | ".join(all_[:14])
    if meant and row.path:
        return _("Did you mean {meant}? Use one of {values}, or a file.", meant=meant, values=values)
    if meant:
        return _("Did you mean {meant}? Use one of {values}.", meant=meant, values=values)
    return _("Use one of {values}, or a file.", values=values) if row.path else _("Use one of {values}.", values=values)
