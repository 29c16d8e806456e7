"""Rules about options that a program accepts only together, only apart, or as multiples: data/constraints.toml."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import islice

from envcheck.core.lint.context import LintContext
from envcheck.core.lint.given_options import GivenOption, find_last_option, locate_option
from envcheck.core.lint.remark_builders import fail, warn_or_fail
from envcheck.core.lint.script_model import CONFIG_SUFFIXES, UNKNOWN, ConfigBlock, Remark, ShellCommand, ShellWord
from envcheck.core.lint.training_job import TrainingJob
from envcheck.core.messages import Message, _, join
from envcheck.core.toml_file import load_own_record
from envcheck.lint.context import name_tables
from envcheck.lint.rules.training.option_schemas import FAMILY_PROGRAMS, find_program_options, find_reading_job
from envcheck.scripts.known_programs import PROGRAMS, KnownProgram, find_config_program, find_started_program
from envcheck.scripts.parse_options import parse_options

WORLD = "@world"  # in the table: the number of processes
MOST_PROGRAMS = 100  # of a file whose options are compared
MOST_COMMANDS = 2000  # of a file among which they are searched
_ZERO3 = re.compile(r"(?:^|[^a-z])z(?:ero)?[_-]?(?:stage[_-]?)?3(?!\d)")
_OVERRIDE = re.compile(r"(\+{0,2})([A-Za-z_][\w.@/-]*)=")


@dataclass(frozen=True)
class OptionConflict:
    """Pairs of options that exclude each other, if none of `unless` is on."""

    programs: tuple[str, ...]
    options: tuple[tuple[str, ...], ...]
    source: str
    when: tuple[str, ...] = ()
    unless: tuple[str, ...] = ()


@dataclass(frozen=True)
class OptionNeed:
    """What an option, with one of `values` if there are any, needs: one of `needed` on, and none of `off_values`.

    With `of`, these are the values that it accepts of the needed one, if it is given; with `off`, it is to be off.
    With `zero3`, only configurations of DeepSpeed count that are named for ZeRO-3.

    `enabling` are options that count as needed ones with these values only.
    """

    programs: tuple[str, ...]
    option: str
    needed: tuple[str, ...]
    source: str
    values: tuple[str, ...] = ()
    of: tuple[str, ...] = ()
    off: bool = False
    off_values: tuple[str, ...] = ()
    zero3: bool = False
    enabling: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    unless: tuple[str, ...] = ()


@dataclass(frozen=True)
class SeparatedNames:
    """Options with one value of several names that commas separate: the program reads a blank as a part of a name."""

    programs: tuple[str, ...]
    names: tuple[str, ...]
    source: str


@dataclass(frozen=True)
class NumberMultiple:
    """The product of `of` is a multiple of the product of `by`, or equal to it.

    It applies if all of `when` are on, none of `unless` is, and none of `unless_off` is given and off.
    """

    programs: tuple[str, ...]
    of: tuple[str, ...]
    by: tuple[str, ...]
    source: str
    defaults: Mapping[str, int] = field(default_factory=dict)
    when: tuple[str, ...] = ()
    unless: tuple[str, ...] = ()
    unless_off: tuple[str, ...] = ()
    unless_config: bool = False
    equal: bool = False


@dataclass(frozen=True)
class ConstraintsFile:
    """The contents of data/constraints.toml."""

    conflicts: tuple[OptionConflict, ...]
    needs: tuple[OptionNeed, ...]
    multiples: tuple[NumberMultiple, ...]
    separated: tuple[SeparatedNames, ...]


@dataclass(frozen=True)
class ProgramCall:
    """The options of one program in the order in which they apply; `open`: there may be others."""

    program: str
    options: tuple[GivenOption, ...]
    open: bool = False
    world: int | None = None
    job: TrainingJob | None = None
    words: tuple[ShellWord, ...] = ()

    def find(self, name: str) -> GivenOption | None:
        return find_last_option(self.options, name)

    def is_on(self, name: str) -> bool:
        given = self.find(name)
        return given is not None and is_switched_on(given)

    def is_off(self, name: str) -> bool:
        """Return whether the option is given and off, or may be."""
        given = self.find(name)
        return given is not None and not (is_switched_on(given) and _is_known(given))

    @property
    def names_configuration(self) -> bool:
        """Whether it reads a configuration that the user names for Hydra, instead of the program's own."""
        return any(word.text.startswith(("--config", "-cn", "-cp")) for word in self.words)


@cache
def load_constraints() -> ConstraintsFile:
    return load_own_record(ConstraintsFile, name_tables.FOLDER / "constraints.toml")


def is_switched_on(given: GivenOption) -> bool:
    """Return whether an option is set to anything but false, zero or null."""
    return given.is_enabled and given.value not in ("0.0", "null", "~")


def list_program_calls(context: LintContext) -> Iterator[ProgramCall]:
    """Yield the known programs that the scripts start, and the configurations of known programs."""
    jobs = {id(job.command): job for job in context.jobs}
    commands = islice(context.find_commands(), MOST_COMMANDS)
    calls = (_read_call(context, jobs.get(id(command)), command) for _script, command in commands)
    yield from islice((call for call in calls if call is not None), MOST_PROGRAMS)
    for config in context.configs:
        row = _find_reader(context, config)
        if row is not None and not config.error:
            yield ProgramCall(row.name, tuple(_read_entries(config)))


def _find_reader(context: LintContext, config: ConfigBlock) -> KnownProgram | None:
    """The program of a configuration by its keys, in the mode in which a script starts it."""
    job = find_reading_job(context, config) if config.family in FAMILY_PROGRAMS else None
    started = find_started_program(job.command.words, job.command.environment) if job is not None else None
    return started or find_config_program(config)


def _find_listed_program(context: LintContext, job: TrainingJob | None) -> KnownProgram | None:
    """The program of which only a file of its sources is started: by the package that has its options."""
    kit = find_program_options(context, job) if job is not None else None
    packages = {each.package for each in kit.known} if kit is not None else set()
    rows = (row for row in PROGRAMS if packages and not row.switch)
    return next((row for row in rows if packages.intersection(row.families)), None)


def _read_call(context: LintContext, job: TrainingJob | None, command: ShellCommand) -> ProgramCall | None:
    row = find_started_program(command.words, command.environment) or _find_listed_program(context, job)
    if row is None:
        return None
    words = command.words
    options = (*job.lent, *job.options) if job is not None else tuple(parse_options(words))
    overrides = tuple(_read_overrides(words))
    is_open = any(word.many or "$@" in word.raw or "$*" in word.raw or _names_file(word.text) for word in words)
    world = job.world_size if job is not None and not job.open else None
    return ProgramCall(row.name, (*options, *overrides), is_open, world, job, words)


def _names_file(text: str) -> bool:
    """Whether the word names a configuration, which may have more options."""
    return text.startswith("--config") or ("=" not in text and text.endswith(CONFIG_SUFFIXES))


def _read_overrides(words: Iterable[ShellWord]) -> Iterator[GivenOption]:
    """KEY=VALUE, as Hydra and OmegaConf have it."""
    for word in words:
        if match := _OVERRIDE.match(word.text):
            value = ShellWord(word.text[match.end() :], word.start, word.end, soft=word.soft)
            start = word.start + len(match[1])
            yield GivenOption(match[2], (value,), start, word.end, key=True, written=match[1])


def _read_entries(config: ConfigBlock) -> Iterator[GivenOption]:
    for entry in config.entries:
        if entry.kind not in ("map", "null"):
            values = tuple(ShellWord(text, entry.value_start, entry.value_end) for text in entry.values)
            yield GivenOption(".".join((*entry.path, entry.name)), values, entry.start, entry.end, key=True)


def find_conflicting_settings(context: LintContext) -> Iterator[Remark]:
    """Find options that exclude each other, and options without those that they need."""
    table = load_constraints()
    for call in list_program_calls(context):
        for conflict in table.conflicts:
            if call.program in conflict.programs and _applies(call, conflict):
                yield from _judge_conflict(call, conflict)
        for need in table.needs:
            if call.program in need.programs and not any(map(call.is_on, need.unless)):
                yield from _judge_need(call, need)


def _judge_conflict(call: ProgramCall, conflict: OptionConflict) -> Iterator[Remark]:
    reported: set[int] = set()
    for one, other in conflict.options:
        found = [given for name in (one, other) if (given := call.find(name)) is not None and is_switched_on(given)]
        place = max(found, key=lambda given: given.start, default=None)
        if place and place.start not in reported and len(found) == 2 and all(_is_known(given) for given in found):
            reported.add(place.start)
            seen = _("{one} and {other} are both set: the program exits", one=one, other=other)
            yield fail(ShellWord("", place.start, place.end), seen, _("Keep only one of them."))


def _judge_need(call: ProgramCall, need: OptionNeed) -> Iterator[Remark]:
    given = call.find(need.option)
    if given is None or not (need.values or is_switched_on(given)) or not _is_known(given):
        return
    if need.values and given.value not in need.values:
        return
    found = [each for name in need.needed if (each := call.find(name)) is not None]
    enabling = [(each, values) for name, values in need.enabling.items() if (each := call.find(name)) is not None]
    if any(not _is_known(each) for each in (*found, *(each for each, _values in enabling))):
        return
    if any(each.value in values for each, values in enabling):
        return
    if need.off:
        wrong = [each for each in found if is_switched_on(each) and (not need.zero3 or _names_zero3(each))]
    elif need.of:
        wrong = [each for each in found if each.value is not None and each.value not in need.of]
    elif any(is_switched_on(each) and each.value not in need.off_values for each in found) or call.open:
        return
    else:
        wrong = found or [given]
    if wrong:
        place = wrong[-1]
        yield fail(locate_option(place), *_describe_need(need, given, place))


def _names_zero3(given: GivenOption) -> bool:
    """Whether the name of the file, not its folder's, says ZeRO-3."""
    return _ZERO3.search((given.value or "").rpartition("/")[2]) is not None


def _describe_need(need: OptionNeed, given: GivenOption, wrong: GivenOption) -> tuple[Message, Message]:
    option = f"{need.option} {given.value}" if need.values else need.option
    if need.off:
        other = f"{wrong.python_name} {wrong.value}" if need.zero3 else wrong.python_name
        seen = _("{option} does not work with {other}: the program exits", option=option, other=other)
        return seen, _("Remove one of them, or change its value.")
    if need.of or (need.off_values and wrong is not given):
        values = need.of or (_("more than {least}", least=need.off_values[0]),)
        seen = _("{option} needs {other} {values}, not {value}: the program exits", option=option,
                 other=wrong.python_name, values=join(_(" or "), values), value=wrong.value)  # fmt: skip
        return seen, _("Remove one of them, or change its value.")
    other = need.needed[0]
    seen = _("{option} needs {other}: the program exits", option=option, other=other)
    return seen, _("Set {other}, or remove {option}.", other=other, option=need.option)


def find_misread_texts(calls: Iterable[ProgramCall]) -> Iterator[Remark]:
    """Find values that the parser of the program reads as something else: a comma at the end, blanks between names."""
    for call in calls:
        yield from _find_trailing_commas(call)
        for rule in load_constraints().separated:
            for name in rule.names if call.program in rule.programs else ():
                given = call.find(name)
                if given is not None and _is_known(given):
                    yield from _judge_blanks(given)


def _find_trailing_commas(call: ProgramCall) -> Iterator[Remark]:
    """Overrides of Hydra with a comma at the end, which its grammar rejects."""
    for given in call.options if call.program in _READ_BY_HYDRA else ():
        word = given.values[0] if len(given.values) == 1 and given.key else None
        if word is not None and re.search(r"[^,\[{('\"\\],$", word.text):
            seen = _("a comma follows the value of {option}: Hydra cannot read it, and exits", option=given.name)
            yield fail(word, seen, _("Remove the comma."))


_READ_BY_HYDRA = frozenset(row.name for row in PROGRAMS if row.parser == "Hydra" and row.file)
_BLANK_IN_NAME = re.compile(r"[^,\s]\s+[^,\s]")


def _judge_blanks(given: GivenOption) -> Iterator[Remark]:
    text = given.value or " ".join(word.text for word in given.values)
    if (given.value is not None or not given.key) and _BLANK_IN_NAME.search(text.strip()):
        fixed = ",".join(part for part in re.split(r"[,\s]+", text) if part)
        seen = _("{option} takes names with commas between them: {text} is one name, and the program exits",
                 option=given.python_name, text=text[:60])  # fmt: skip
        yield fail(given.values[0], seen, _("Write {fixed}.", fixed=fixed[:80]))


def find_indivisible_numbers(context: LintContext) -> Iterator[Remark]:
    """Find batch sizes and degrees that do not divide as the program requires."""
    for call in list_program_calls(context):
        for row in load_constraints().multiples:
            unsure = (row.unless_config and call.names_configuration) or any(map(call.is_off, row.unless_off))
            if call.program in row.programs and _applies(call, row) and not unsure:
                yield from _judge_multiple(call, row)


def _applies(call: ProgramCall, row: NumberMultiple | OptionConflict) -> bool:
    return all(map(call.is_on, row.when)) and not any(map(call.is_on, row.unless))


def _judge_multiple(call: ProgramCall, row: NumberMultiple) -> Iterator[Remark]:
    by = row.by if call.world or row.equal else tuple(name for name in row.by if name != WORLD)
    whole, step = _multiply(call, row.of, row.defaults), _multiply(call, by, row.defaults)
    if not whole or not step or (whole == step if row.equal else whole % step == 0):
        return
    given = [each for name in (*by, *row.of) if (each := call.find(name)) is not None]
    shown = {"whole": _show_product(call, row.of, row.defaults), "total": whole}
    shown |= {"parts": _show_product(call, by, row.defaults), "step": step}
    if row.equal:
        seen = _("{whole} is {total}, but {parts} is {step}: the program exits if they differ", **shown)
        do = _("Change one of the numbers so that they are equal.")
    else:
        seen = _("{whole} is {total}, which is not a multiple of {parts} = {step}: the program exits", **shown)
        do = _("Use a multiple.")
    sure = not call.open and not any(each.is_replaceable for each in given)
    yield warn_or_fail(sure, locate_option(given[0]), seen, do)


def _multiply(call: ProgramCall, names: Sequence[str], defaults: Mapping[str, int]) -> int:
    """The product of the values; 0 if one of them is not known."""
    return math.prod(_read_count(call, name, defaults) for name in names)


def _read_count(call: ProgramCall, name: str, defaults: Mapping[str, int]) -> int:
    if name == WORLD:
        return call.world or 0
    given = call.find(name)
    if given is None:
        return 0 if call.open else defaults.get(name, 0)
    return int(given.value) if given.value is not None and re.fullmatch(r"\d{1,9}", given.value) else 0


def _show_product(call: ProgramCall, names: Sequence[str], defaults: Mapping[str, int]) -> Message:
    """The options with a value other than 1, with their values."""
    parts = [(name, _read_count(call, name, defaults)) for name in names]
    texts = [_("{count} processes", count=count) if name == WORLD else f"{name} {count}" for name, count in parts]
    kept = [text for text, (_name, count) in zip(texts, parts, strict=True) if count != 1] or texts[:1]
    return join(" x ", kept if len(kept) > 1 else [kept[0].rpartition(" ")[0]])


def _is_known(given: GivenOption) -> bool:
    return all(word.is_known and UNKNOWN not in word.text for word in given.values)
