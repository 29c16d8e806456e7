"""What the user adds to a job's own options, by --set and behind --; each is judged before anything starts."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from envcheck.core.errors import UsageError
from envcheck.core.toml_file import own_table
from installers.recipes.recipe import RecipeJob
from launch.rendering.dialects import called
from launch.rendering.rows import Rows, arguments, merged, rows
from launch.rendering.schema import OptionSchema
from launch.rendering.validate import SYNCED_FILE

_NAME = re.compile(r"[A-Za-z][\w-]{0,79}")
# hub_token and its like; ignore_eos_token and others that end alike are given a truth or a number.
_SECRET = re.compile(r"(token|secret|api[-_]?key|passw(or)?d)$", re.IGNORECASE)
_NUMBER = re.compile(r"[+-]?(?:\d{1,20}\.?\d{0,20}|\.\d{1,20})(?:[eE][+-]?\d{1,3})?")  # save_steps may be a share
_TOKEN = re.compile(r"\{([a-z_]+)\}")
OURS = ("output", "log_dir")  # the folders of a run are envcheck's own to give


def read(pairs: Iterable[str], words: Sequence[str]) -> Rows:
    """NAME=VALUE of --set, and what stands behind --: options, or NAME=VALUE as well; none of them twice."""
    found = [_pair(pair, "--set") for pair in pairs]
    if any(word.startswith("--") for word in words):
        if not words[0].startswith("--"):
            raise UsageError(
                f"{words[0][:80]!r} behind -- belongs to no option", "an option comes first: -- --NAME VALUE"
            )
        names = [word[2:].partition("=")[0] for word in words if word.startswith("--")]
        found += [(name, rows(words)[name]) for name in names]
    else:
        found += [_pair(word, "behind --") for word in words]
    for name, number in Counter(name for name, _ in found).items():
        if not _NAME.fullmatch(name):
            raise UsageError(f"{name[:80]!r} is no name of an option", "a name has letters, digits and _")
        if number > 1:
            raise _repeated(name, number)
    for name, values in found:
        if _SECRET.search(name) and any(len(value) >= 12 for value in values):
            raise UsageError(
                f"{name} looks like a secret, and everybody on this machine reads a command line",
                "log in with the hub's own program beforehand, and leave it out",
            )
    return dict(found)


def _repeated(name: str, number: int) -> UsageError:
    return UsageError(f"{name} is said {number} times; only the last would count", "say it once")


def _pair(text: str, where: str) -> tuple[str, tuple[str, ...]]:
    name, equals, value = text.partition("=")
    if not equals:
        raise UsageError(f"{where}: {text[:80]!r} is not NAME=VALUE", "for instance --set learning_rate=1e-5")
    return name.removeprefix("--"), (value,)


def spelled(given: Rows, known: OptionSchema | None) -> Rows:
    """In the list's own spelling, and --no_NAME as NAME false; UsageError where two spellings mean one option."""
    found: Rows = {}
    for name, values in given.items():
        plain, off = known.spelled(name) if known else (name, False)
        if plain in found:
            raise _repeated(plain, 2)
        if off and values:
            raise UsageError(f"{name} takes no value: it means {plain}=false", f"say --set {plain}=false")
        found[plain] = ("false",) if off else values
    return found


def judge(given: Rows, known: OptionSchema | None) -> list[str]:
    """What cannot be told, a line for each; UsageError for an option that the program is known not to have."""
    doubts = []
    for name in given:
        answer = known.has(name) if known else None
        near = right(name, known) if known and not answer else None
        if answer is False and known:
            raise UsageError(
                f"{known.title or known.program} has no option {name!r} ({known.source})", _instead(name, near, known)
            )
        if answer is None:
            doubts.append(
                f"nobody could tell whether this version has the option {name}" + (f"; there is {near}" if near else "")
            )
    return doubts


def right(name: str, known: OptionSchema) -> str | None:
    """What a wrong option is called by the program: its name in other versions, else the nearest."""
    return next((word for word in called(name) if word in known.names), None) or known.nearest(name)


def _instead(name: str, near: str | None, known: OptionSchema) -> str:
    where = known.elsewhere(name)
    if where and not called(name):
        return f"versions that have it: {known.package} {where}" + (f"; there is {near}" if near else "")
    return f"did you mean {near}?" if near else "see the upstream's own list of options"


def applied(job: RecipeJob, given: Rows) -> RecipeJob:
    """The job with these options in the place of its own; steps and degrees of the job's data follow them."""
    before = rows(job.arguments)
    for name, values in given.items():
        token = _token(before.get(name, ()))
        if token in OURS:
            raise UsageError(f"{name} is the run's own folder", "leave it out; --runs names the folder of the runs")
        if token and len(values) == 1:
            job = filled(job, token, values[0])
    return _synced(replace(job, arguments=merged(job.arguments, given)), given)


def _token(values: Sequence[str]) -> str:
    found = _TOKEN.match(values[0]) if len(values) == 1 else None
    return found[1] if found else ""


def filled(job: RecipeJob, token: str, value: str) -> RecipeJob:
    """The job with a token's value wherever it stands: files that are asked for are those of the value."""

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


def _synced(job: RecipeJob, given: Rows) -> RecipeJob:
    """`steps` and `parallel` say what the options say: gates and planner read them."""
    tables = own_table(SYNCED_FILE)
    steps = _followed(job.steps, given, tables["steps"])
    return replace(job, steps=steps, parallel=_followed(job.parallel, given, tables["parallel"]))


def _followed(old: Mapping[str, int], given: Rows, names: Mapping[str, str]) -> dict[str, int]:
    """What is said and is no count is not known any more: a share of the steps, and -1, by which upstreams mean that
    they find out themselves (max_steps by the epochs, where 0 does as well)."""
    said = {names[name]: _number(name, values) for name, values in given.items() if name in names}
    numbers = {key: int(text) for key, text in said.items() if text.isascii() and text.isdecimal() and len(text) < 10}
    numbers = {key: number for key, number in numbers.items() if number or key != "max"}
    return {key: number for key, number in {**old, **numbers}.items() if key in numbers or key not in said}


def _number(name: str, values: Sequence[str]) -> str:
    """`steps` is our own program's, which counts no epochs."""
    text = " ".join(values)
    if len(values) != 1 or not _NUMBER.fullmatch(text) or (name == "steps" and not float(text) >= 1):
        raise UsageError(f"{name} wants a number, not {text[:80]!r}", f"for instance --set {name}=4")
    return text


def own_data(job: RecipeJob, file: str) -> RecipeJob:
    """The job on the user's file; what it would read else is no longer asked for."""
    if not job.own_data:
        return job
    asked = {
        name: tuple(value.replace("{data}", file) for value in values) for name, values in rows(job.own_data).items()
    }
    gone = {value for name in asked for value in rows(job.arguments).get(name, ())}
    paths = {path for value in gone for path in value.split(",")}
    return replace(
        job,
        arguments=arguments({**rows(job.arguments), **asked}),
        requires=(*(path for path in job.requires if path not in paths), file),
        data=(*(path for path in job.data if path not in paths), file),
        own_files={name: text.replace("{data}", json.dumps(file)[1:-1]) for name, text in job.own_files.items()},
    )
