"""Rules about option and key names of trainers whose lists are of some versions only: data/option_names.toml."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from envcheck.core.lint.context import LintContext
from envcheck.core.lint.given_options import GivenOption
from envcheck.core.lint.remark_builders import find_similar_name, format_names, replace_span, unknown, warn
from envcheck.core.lint.script_model import Remark, ShellWord
from envcheck.core.messages import _
from envcheck.core.toml_file import load_own_record
from envcheck.lint.context import name_tables
from envcheck.lint.rules.training.constraints import ProgramCall, list_program_calls
from envcheck.lint.rules.training.option_schemas import find_checkout_words
from launch.rendering.option_schema import load_schemas

NEARLY = 0.88  # of the letters of a listed name: shorter names differ by a letter, longer ones by two
SHORTEST = 5  # letters of a name that can be a misspelling
MOST_SEARCHES = 100  # names of a call for which a similar one is searched
_ALWAYS = ("config", "help", "local_rank")  # of the parsers themselves
ANY_BELOW = ".*"  # after a name: it has keys of its own that the list does not have


@dataclass(frozen=True)
class NameList:
    """The names that programs read; `negations` are prefixes that their parser accepts before a name.

    `complete`: these `modules` read no others in `version`, unless a key is added with a plus sign.  `siblings` are
    programs of the package with other options, as in launch/rendering/options; a checkout of `package` may have more.
    """

    programs: tuple[str, ...]
    source: str
    names: frozenset[str]
    negations: tuple[str, ...] = ()
    complete: bool = False
    modules: tuple[str, ...] = ()
    version: str = ""
    siblings: tuple[str, ...] = ()
    package: str = ""

    def has_name(self, name: str) -> bool:
        if name in self.names or name + ANY_BELOW in self.names:
            return True
        if any(name.startswith(prefix) and name[len(prefix) :] in self.names for prefix in self.negations):
            return True
        parts = name.split(".")
        return any(".".join(parts[:n]) + ANY_BELOW in self.names for n in range(1, len(parts)))


@dataclass(frozen=True)
class NameListsFile:
    """The contents of data/option_names.toml."""

    lists: tuple[NameList, ...]


@cache
def load_name_lists() -> tuple[NameList, ...]:
    return load_own_record(NameListsFile, name_tables.FOLDER / "option_names.toml").lists


def find_unlisted_options(context: LintContext) -> Iterator[Remark]:
    """Find options of commands that are nearly a listed one, and Hydra's keys that no list has."""
    for call in list_program_calls(context):
        for listed in load_name_lists() if call.words else ():
            if call.program in listed.programs and _is_for_call(listed, call):
                words = find_checkout_words(context.machine.folder, listed.package) if listed.package else frozenset()
                yield from _judge_names(call, listed, words)


def find_unlisted_keys(context: LintContext) -> Iterator[Remark]:
    """Find keys of configurations that are nearly a listed one."""
    for call in list_program_calls(context):
        for listed in load_name_lists() if not call.words else ():
            if call.program in listed.programs and not listed.complete:
                yield from _judge_names(call, listed)


def _is_for_call(listed: NameList, call: ProgramCall) -> bool:
    texts = [word.text for word in call.words]
    if listed.modules and not any(text in listed.modules for text in texts):
        return False
    return not call.names_configuration or not listed.complete


def _judge_names(call: ProgramCall, listed: NameList, own: frozenset[str] = frozenset()) -> Iterator[Remark]:
    """`own` are words in the sources of the checkout: a fork has keys of its own."""
    unlisted: dict[str, GivenOption] = {}
    for given in call.options:
        name = given.name if given.key else given.python_name
        is_judged = not given.written and (given.key or not listed.complete)
        is_listed = listed.has_name(name) or name in _ALWAYS or name.rpartition(".")[2] in own
        if is_judged and not is_listed and (call.words or "." not in name):  # of files, the lists have the top only
            unlisted.setdefault(name, given)
    rest = []
    for number, (name, given) in enumerate(unlisted.items()):
        meant = _find_meant_name(name, listed) if number < MOST_SEARCHES and len(name) >= SHORTEST else ""
        if meant:
            place = ShellWord("", given.start, given.start + len(given.name) if given.key else given.end)
            shown, other = (name, meant) if given.key else (f"--{given.name}", f"--{_spell_like(meant, given.name)}")
            seen = _("{program} does not list an option {option}", program=call.program, option=shown)
            yield warn(place, seen, _("Did you mean {meant}?", meant=other), replace_span(place, other))
        elif sibling := _find_sibling(given.python_name, listed):
            place, other = ShellWord("", given.start, given.end), _("It is an option of {sibling}.", sibling=sibling)
            seen = _("{program} does not list an option {option}", program=call.program, option=f"--{given.name}")
            yield warn(place, seen, other)
        else:
            rest.append(given)
    if rest and listed.complete:
        names = format_names(given.name for given in rest)
        seen = _("{program} {versions} does not list {option}, and exits on unknown options", program=call.program,
                 versions=listed.version, option=names)  # fmt: skip
        place = ShellWord("", rest[0].start, rest[0].end)
        yield unknown(place, seen, _("Look up the key in the installed version, or write + before it to add it."))


def _find_sibling(name: str, listed: NameList) -> str:
    schemas = (each for each in load_schemas() if each.program in listed.siblings)
    return next((each.program for each in schemas if name in each.names), "")


def _spell_like(name: str, written: str) -> str:
    return name.replace("_", "-") if "-" in written else name


def _find_meant_name(name: str, listed: NameList) -> str:
    """The listed name in which one part, between the dots, is nearly the same, and all others are the same."""
    parts, levels = name.split("."), _list_levels(listed)
    for number, part in enumerate(parts):
        known = levels.get(tuple(parts[:number]), frozenset())
        if part in known:
            continue
        meant = ".".join((*parts[:number], find_similar_name(part, known, NEARLY), *parts[number + 1 :]))
        return meant if listed.has_name(meant) else ""
    return ""


@cache
def _list_levels(listed: NameList) -> Mapping[tuple[str, ...], frozenset[str]]:
    """The parts of a name before a dot → the parts that may follow."""
    found: dict[tuple[str, ...], set[str]] = {}
    for name in listed.names:
        parts = name.removesuffix(ANY_BELOW).split(".")
        for number, part in enumerate(parts):
            found.setdefault(tuple(parts[:number]), set()).add(part)
    return {before: frozenset(parts) for before, parts in found.items()}
