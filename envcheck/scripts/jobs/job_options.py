"""The options of one training job with the place where each was read: its files first, then its command."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from envcheck.core.lint.given_options import GivenOption
from envcheck.core.lint.script_model import CONFIG_SUFFIXES, UNKNOWN, ConfigBlock, ShellWord, SourceBlock, SourceFile
from envcheck.core.lint.training_job import TrainingJob
from envcheck.scripts import config_files

_VARIABLE = re.compile(r"\$(?:\{[!#]?)?(\w+|[@*])")
_OVERRIDE = re.compile(r"[A-Za-z_][\w.]*=")


@dataclass(frozen=True)
class PlacedOption:
    """An option or key; nested keys are joined by dots.  `where` is FILE:LINE, or the command.

    `variables` are those in the unknown parts of the values.
    """

    name: str
    values: tuple[str, ...]
    where: str
    variables: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The values as one text; UNKNOWN in it if a variable has no known value."""
        return " ".join(self.values)


@dataclass(frozen=True)
class JobFiles:
    """The source of a job, the folders of relative paths, and the configurations that the source itself writes."""

    source: SourceFile
    folders: tuple[Path, ...]
    written: tuple[ConfigBlock, ...] = ()
    own: str = ""  # how the source is named in places: "" for a command

    def locate(self, offset: int) -> str:
        """Return FILE:LINE of an offset in the source."""
        return f"{self.own}:{self.source.find_position(offset)[0]}" if self.own else ""

    def find_path(self, text: str, cwd: str = "") -> Path | None:
        """Return the existing file of that name, None if it is unknown or too large."""
        if not text or UNKNOWN in text + cwd or "\0" in text + cwd or len(text) > 4000:
            return None
        for folder in self.folders:
            path = Path(folder, cwd, text).expanduser()
            try:
                if path.is_file() and path.stat().st_size <= config_files.LIMIT:
                    return path
            except OSError:
                continue
        return None

    def read_options(self, text: str, cwd: str = "") -> list[PlacedOption]:
        """Return the keys of a configuration file, () if it is not there or not readable."""
        wanted = text.rpartition("/")[2]
        for config in self.written:
            if wanted and config.file.rpartition("/")[2] == wanted:
                return list(self.list_entries(config))
        path = self.find_path(text, cwd)
        if path is None:
            return []
        try:
            raw = path.read_bytes()
        except OSError:
            return []
        config = config_files.parse_config(SourceBlock("yaml", raw, ((0, 0),)), path.name)
        return list(_list_config_entries(config, SourceFile(text, raw), text))

    def list_entries(self, config: ConfigBlock) -> Iterator[PlacedOption]:
        """Yield the keys of a configuration in the source."""
        return _list_config_entries(config, self.source, self.own)


@dataclass
class OptionTable:
    """The options of a job, the ones that win last."""

    options: list[PlacedOption] = field(default_factory=list)

    def find(self, *names: str) -> PlacedOption | None:
        """Return the last option with one of these names and a value other than null."""
        found = (each for each in reversed(self.options) if each.name in names)
        return next((each for each in found if each.text.lower() not in ("null", "none", "~")), None)

    def read_text(self, *names: str) -> str:
        """Return the value, "" if there is none or it is unknown."""
        found = self.find(*names)
        return "" if found is None or UNKNOWN in found.text else found.text

    def is_enabled(self, *names: str) -> bool | None:
        """Return whether a flag is on; None if it is not given."""
        found = self.find(*names)
        return None if found is None else found.text.lower() not in ("false", "0", "no", "off")


def list_variables(words: Iterable[ShellWord]) -> tuple[str, ...]:
    """Return the variables, with $, that unknown words contain."""
    names = (name for word in words if not word.is_known for name in _VARIABLE.findall(word.raw))
    return tuple(dict.fromkeys(f"${name}" for name in names))


def gather_options(job: TrainingJob, files: JobFiles) -> OptionTable:
    """Return the options of a job: of its files, then of its command, whose words win."""
    table = OptionTable()
    if job.config is not None:
        table.options += files.list_entries(job.config)
    after = _list_program_words(job)
    for word in _list_file_words(after, job):
        if job.config is None:
            table.options += files.read_options(word.text, job.command.cwd)
    given = () if job.config is not None and all(option.key for option in job.options) else job.options
    table.options += [_place_option(option, files) for option in given]
    table.options += [_place_override(word, files) for word in after if _OVERRIDE.match(word.text)]
    return table


def _list_program_words(job: TrainingJob) -> list[ShellWord]:
    """The words after the program, or after the launcher and its verb."""
    first = job.program if job.program is not None else job.at
    at = next((n for n, word in enumerate(job.command.words) if word is first), None)
    words = list(job.command.words[at + 1 :]) if at is not None else []
    while words and job.program is None and (words[0].text == job.verb or words[0].text in ("-m", "llamafactory.cli")):
        words = words[1:]
    return words


def _list_file_words(words: Sequence[ShellWord], job: TrainingJob) -> Iterator[ShellWord]:
    """The words that name a file with options: the first one, and values of options such as --config."""
    if words and words[0].text.endswith(CONFIG_SUFFIXES):
        yield words[0]
    for option in job.options:
        if option.python_name in config_files.OPTIONS_OF_PROGRAM and option.values:
            yield option.values[0]


def _place_option(option: GivenOption, files: JobFiles) -> PlacedOption:
    words = option.values
    if len(words) > 1:
        words = tuple(word for word in words if not _OVERRIDE.match(word.text)) or words
    values = tuple(word.text for word in words)
    return PlacedOption(option.python_name, values, files.locate(option.start), list_variables(words))


def _place_override(word: ShellWord, files: JobFiles) -> PlacedOption:
    name, _unused, value = word.text.partition("=")
    return PlacedOption(name.lstrip("+"), (value,), files.locate(word.start), list_variables([word]))


def _list_config_entries(config: ConfigBlock, source: SourceFile, name: str) -> Iterator[PlacedOption]:
    for entry in config.entries:
        if entry.kind != "map":
            line = source.find_position(entry.start)[0]
            values = entry.values or _list_paths(config, entry.value_start)
            is_known = UNKNOWN not in "".join(values)
            words = () if is_known else (ShellWord(UNKNOWN, entry.start, entry.end, raw=source.read_line(line)),)
            where = f"{name}:{line}" if name else ""
            yield PlacedOption(".".join((*entry.path, entry.name)), values, where, list_variables(words))


def _list_paths(config: ConfigBlock, start: int) -> tuple[str, ...]:
    """The values of `path` in a list of mappings, as axolotl's data sets have it."""
    raw = config.block.raw[max(0, start - config.block.map_to_file(0)) :]
    until = re.search(rb"^[A-Za-z_]", raw, re.MULTILINE)
    inner = raw[: until.start()] if until else raw
    found = re.findall(rb"^[^\S\n]*(?:-[^\S\n]*)?path:[^\S\n]*(\S+)", inner, re.MULTILINE)
    return tuple(text.decode("utf-8", "replace").strip("\"'") for text in found)


def list_values(option: PlacedOption | None) -> tuple[str, ...]:
    """Return the values of an option that may be a list: separated by commas or blanks, or a list of YAML."""
    if option is None:
        return ()
    parts: Iterable[str] = (part for value in option.values for part in re.split(r"[,\s]+", value))
    return tuple(part for part in parts if part and UNKNOWN not in part)
