"""Options that the user adds with --set and after --; each is checked before anything starts."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from envcheck.core.errors import UsageError
from envcheck.core.messages import Message, _, fill
from envcheck.core.toml_file import load_own_table
from installers.recipes.recipe import RecipeJob
from launch.rendering.argument_rows import Rows, format_arguments, merge_rows, parse_rows
from launch.rendering.dialects import list_other_names
from launch.rendering.option_schema import OptionSchema
from launch.rendering.validate import SYNCED_FILE

_NAME = re.compile(r"[A-Za-z][\w-]{0,79}")
# hub_token, for example.  Options like ignore_eos_token match as well, but take a boolean or a number: short values.
_SECRET = re.compile(r"(token|secret|api[-_]?key|passw(or)?d)$", re.IGNORECASE)
_NUMBER = re.compile(r"[+-]?(?:\d{1,20}\.?\d{0,20}|\.\d{1,20})(?:[eE][+-]?\d{1,3})?")  # save_steps may be a share
_TOKEN = re.compile(r"\{([a-z_]+)\}")
RUN_FOLDER_TOKENS = ("output", "log_dir")  # envcheck sets the folders of a run


def parse_user_options(pairs: Iterable[str], words: Sequence[str]) -> Rows:
    """Return the options of --set NAME=VALUE and of the words after --, which are options or NAME=VALUE.

    Raises UsageError for a malformed or repeated option, and for one that holds a secret.
    """
    found = [_parse_pair(pair, "--set") for pair in pairs]
    if any(word.startswith("--") for word in words):
        if not words[0].startswith("--"):
            raise UsageError(
                _("{word!r} after -- is not an option", word=words[0][:80]),
                _("start with an option: -- --NAME VALUE"),
            )
        names = [word[2:].partition("=")[0] for word in words if word.startswith("--")]
        found += [(name, parse_rows(words)[name]) for name in names]
    else:
        found += [_parse_pair(word, _("after --")) for word in words]
    for name, number in Counter(name for name, _unused in found).items():
        if not _NAME.fullmatch(name):
            raise UsageError(_("{name!r} is not an option name", name=name[:80]), _("use letters, digits and _ only"))
        if number > 1:
            raise _repeated_error(name, number)
    for name, values in found:
        if _SECRET.search(name) and any(len(value) >= 12 for value in values):
            raise UsageError(
                _("{name} looks like a secret; all users of this machine can read command lines", name=name),
                _("remove it and log in with the hub's own command first"),
            )
    return dict(found)


def _repeated_error(name: str, number: int) -> UsageError:
    return UsageError(
        _("{name} is set {number} times", name=name, number=number),
        _("use only one of them"),
    )


def _parse_pair(text: str, where: str) -> tuple[str, tuple[str, ...]]:
    name, equals, value = text.partition("=")
    if not equals:
        raise UsageError(
            _("{where}: {word!r} is not NAME=VALUE", where=where, word=text[:80]),
            _("for example --set learning_rate=1e-5"),
        )
    return name.removeprefix("--"), (value,)


def normalise_names(given: Rows, known: OptionSchema | None) -> Rows:
    """Return the options as `known` spells them, --no_NAME as NAME=false.

    Raises UsageError if two spellings mean the same option.
    """
    found: Rows = {}
    for name, values in given.items():
        plain, off = known.resolve_spelling(name) if known else (name, False)
        if plain in found:
            raise _repeated_error(plain, 2)
        if off and values:
            raise UsageError(
                _("{name} takes no value; it means {plain}=false", name=name, plain=plain),
                _("use --set {plain}=false", plain=plain),
            )
        found[plain] = ("false",) if off else values
    return found


def judge_names(given: Rows, known: OptionSchema | None) -> list[Message]:
    """Return one warning per option that may not exist; UsageError for one that the program does not have."""
    doubts = []
    for name in given:
        answer = known.has_option(name) if known else None
        near = find_right_name(name, known) if known and not answer else None
        if answer is False and known:
            raise UsageError(
                _(
                    "{title} has no option {name!r} ({source})",
                    title=known.title or known.program,
                    name=name,
                    source=fill(known.source),
                ),
                _suggest_instead(name, near, known),
            )
        if answer is None:
            doubts.append(
                _("cannot determine whether this version has the option {name}; it has {near}", name=name, near=near)
                if near
                else _("cannot determine whether this version has the option {name}", name=name)
            )
    return doubts


def find_right_name(name: str, known: OptionSchema) -> str | None:
    """Return the program's name for a wrong option: its name in other versions, else the most similar one."""
    return next((word for word in list_other_names(name) if word in known.names), None) or known.suggest_name(name)


def _suggest_instead(name: str, near: str | None, known: OptionSchema) -> Message:
    where = known.find_versions_with(name)
    if where and not list_other_names(name):
        return (
            _(
                "available in {package} {where}; this version has {near}",
                package=known.package,
                where=where,
                near=near,
            )
            if near
            else _("available in {package} {where}", package=known.package, where=where)
        )
    return (
        _("did you mean {near}?", near=near) if near else _("look up the option in the documentation of this program")
    )


def apply_options(job: RecipeJob, given: Rows) -> RecipeJob:
    """Return the job with these options replacing its own; `steps` and `parallel` are updated to match.

    Raises UsageError for an option that names the run's own folder.
    """
    before = parse_rows(job.arguments)
    for name, values in given.items():
        token = _find_token(before.get(name, ()))
        if token in RUN_FOLDER_TOKENS:
            raise UsageError(
                _("{name} is set by envcheck to the folder of the run", name=name),
                _("remove it; set the folder of all runs with --runs"),
            )
        if token and len(values) == 1:
            job = fill_token(job, token, values[0])
    return _sync_counts(replace(job, arguments=merge_rows(job.arguments, given)), given)


def _find_token(values: Sequence[str]) -> str:
    found = _TOKEN.match(values[0]) if len(values) == 1 else None
    return found[1] if found else ""


def fill_token(job: RecipeJob, token: str, value: str) -> RecipeJob:
    """Return the job with a token replaced by its value everywhere, also in the required files."""

    def texts(each: Iterable[str]) -> tuple[str, ...]:
        return tuple(text.replace(f"{{{token}}}", value) for text in each)

    return replace(
        job,
        launcher=texts(job.launcher),
        arguments=texts(job.arguments),
        requires=texts(job.requires),
        data=texts(job.data),
        environment=dict(zip(job.environment, texts(job.environment.values()), strict=True)),
    )


def _sync_counts(job: RecipeJob, given: Rows) -> RecipeJob:
    """Update `steps` and `parallel` from the options; gates and planner read them."""
    tables = load_own_table(SYNCED_FILE)
    steps = _update_counts(job.steps, given, tables["steps"])
    return replace(job, steps=steps, parallel=_update_counts(job.parallel, given, tables["parallel"]))


def _update_counts(old: Mapping[str, int], given: Rows, names: Mapping[str, str]) -> dict[str, int]:
    """Return `old` with the counts of the options; an option whose value is not a count makes its entry unknown.

    Such values are a share of the steps and -1, which upstreams resolve themselves (max_steps from the epochs; 0 means
    the same there).
    """
    texts = {names[name]: _check_number(name, values) for name, values in given.items() if name in names}
    numbers = {key: int(text) for key, text in texts.items() if text.isascii() and text.isdecimal() and len(text) < 10}
    numbers = {key: number for key, number in numbers.items() if number or key != "max"}
    return {key: number for key, number in {**old, **numbers}.items() if key in numbers or key not in texts}


def _check_number(name: str, values: Sequence[str]) -> str:
    """Return the value; `steps` (of envcheck's own program, which has no epochs) must be at least 1."""
    text = " ".join(values)
    if len(values) != 1 or not _NUMBER.fullmatch(text) or (name == "steps" and not float(text) >= 1):
        raise UsageError(
            _("{name} expects a number, got {value!r}", name=name, value=text[:80]),
            _("for example --set {name}=4", name=name),
        )
    return text


def set_own_data(job: RecipeJob, file: str) -> RecipeJob:
    """Return the job reading the user's file; the files that it replaces are no longer required."""
    if not job.own_data:
        return job
    asked = {
        name: tuple(value.replace("{data}", file) for value in values)
        for name, values in parse_rows(job.own_data).items()
    }
    gone = {value for name in asked for value in parse_rows(job.arguments).get(name, ())}
    paths = {path for value in gone for path in value.split(",")}
    return replace(
        job,
        arguments=format_arguments({**parse_rows(job.arguments), **asked}),
        requires=(*(path for path in job.requires if path not in paths), file),
        data=(*(path for path in job.data if path not in paths), file),
        own_files={name: text.replace("{data}", json.dumps(file)[1:-1]) for name, text in job.own_files.items()},
    )
