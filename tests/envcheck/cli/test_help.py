"""The help of all commands: groups, one meaning for each option name, words for people, in two languages."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from envcheck.cli import help_screen, main
from envcheck.cli.message_catalogue import read_catalogue
from envcheck.cli.option_groups import OptionGroup, find_group, is_common
from envcheck.core.language import width

ROOT = Path(__file__).parents[3]
CATALOGUE = ROOT / "envcheck/locale/zh_CN/LC_MESSAGES/envcheck.po"
CHINESE = {message.id: message.string for message in read_catalogue(CATALOGUE) if not message.fuzzy}
LONG = ("doctor", "provision", "train", "infer", "plan", "bundle")
HELP_LIMIT = 52  # characters: a line beside the options, in a terminal of 80 columns
ENUMERATIONS = ("--format", "--offload", "--no-stop")  # of two lines, since they name all that can be given
CLICKS_NAMES = ("TEXT", "INTEGER", "FLOAT", "BOOLEAN", "DIRECTORY", "FILENAME", "INTEGER RANGE", "FLOAT RANGE", "UUID")

COMMAND = re.compile("  (?:envcheck|python3|tar|cat|npu-smi|kubectl|eval) ")


def commands() -> Iterator[tuple[str, click.Command]]:
    """The path and each command below `envcheck`."""
    for name, module in main.COMMANDS.items():
        yield from _below(name, getattr(importlib.import_module(module), name))


def _below(path: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    yield path, command
    for name, each in (getattr(command, "commands", None) or {}).items():
        yield from _below(f"{path} {name}", each)


def options() -> Iterator[tuple[str, click.Option]]:
    for path, command in commands():
        yield from ((path, param) for param in command.params if isinstance(param, click.Option) and not param.hidden)


def show_help(*words: str, columns: int = 80, lang: str = "en") -> str:
    """Run in a separate process, because the language is selected once."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": str(columns), "PYTHONUTF8": "1"}
    argv = [sys.executable, "-m", "envcheck", *words, "--lang", lang]
    return subprocess.run(argv, env=env, capture_output=True, text=True, timeout=120, check=True).stdout


def test_one_option_name_has_one_meaning() -> None:
    """In all commands an option of the same name has the same help, metavar and type, and takes as many values."""
    meanings = defaultdict(set)
    for _, option in options():
        kind = (type(option.type).__name__, option.is_flag, option.multiple)
        for word in (*option.opts, *option.secondary_opts):
            meanings[word].add((option.help, option.metavar, *kind))

    assert len(meanings) > 130
    assert {word: found for word, found in meanings.items() if len(found) > 1} == {}


def test_metavars_are_words() -> None:
    """Metavars are words, not click's type names, and each has a Chinese translation."""
    values = {(path, o.opts[0]): str(o.metavar) for path, o in options() if not o.is_flag}
    arguments = {
        (path, str(p.name)): str(p.metavar) for path, c in commands() for p in c.params if isinstance(p, click.Argument)
    }
    metavars = values | arguments
    english = {metavar for metavar in metavars.values() if re.search("[A-Z]{2}", metavar)}

    assert {where for where, metavar in metavars.items() if metavar in ("None", "")} == set()
    assert {where: metavar for where, metavar in values.items() if metavar.upper() in CLICKS_NAMES} == {}
    assert {metavar for metavar in english if not CHINESE.get(metavar)} == set()


def test_each_option_says_what_it_is_in_a_sentence() -> None:
    """It begins with a capital letter, ends as a sentence, and is short."""
    helps = {(path, option.opts[0]): str(option.help) for path, option in options()}
    sentence = re.compile(r"[A-Z].*(?:\.|\))$|[一-鿿].*", re.DOTALL)  # Chinese where another test has chosen it

    assert {where: text for where, text in helps.items() if not sentence.match(text)} == {}
    assert {where[1] for where, text in helps.items() if len(text) > HELP_LIMIT} <= set(ENUMERATIONS)


def test_a_settings_file_is_listed_with_what_it_sets() -> None:
    """Of doctor and prolog it has thresholds and checks; of the commands that install it has their sources."""
    groups = {path: find_group(option) for path, option in options() if option.name == "config"}
    checks, installs = ("doctor", "slurm prolog"), ("provision", "bundle", "train")

    assert groups == {**dict.fromkeys(checks, OptionGroup.CHECKS), **dict.fromkeys(installs, OptionGroup.MACHINE)}


def test_which_commands_have_groups() -> None:
    """Those with more options than fit a screen."""
    assert {path for path, command in commands() if help_screen.has_many_options(command)} == set(LONG)


@pytest.mark.parametrize("name", LONG)
def test_a_long_help_has_two_lengths(name: str) -> None:
    """--help shows the common options by group and mentions --help-all, which shows all."""
    command = dict(commands())[name]
    params = [p for p in command.params if isinstance(p, click.Option) and not p.hidden]
    short, whole = show_help(name, "--help"), show_help(name, "--help-all")

    assert short.endswith(f"\nRun 'envcheck {name} --help-all' for all options.\n")
    assert {p.opts[0] for p in params if not _has(whole, p)} == set()
    assert {p.opts[0] for p in params if _has(short, p)} == {p.opts[0] for p in params if is_common(p)}
    assert len([p for p in params if is_common(p)]) <= 32
    assert [group.value for group in OptionGroup if f"\n{group.value}:\n" in whole] == [
        group.value for group in OptionGroup if group in {*map(find_group, params), OptionGroup.GENERAL}
    ]


def _has(text: str, option: click.Option) -> bool:
    """Whether a row of the help has the option, behind another of its names."""
    word = re.escape(max(option.opts, key=len))
    return bool(re.search(rf"^  (?:-[-\w]+, )?{word}(?![\w-])", text, re.MULTILINE))


def test_a_short_help_has_all() -> None:
    """--help-all of a command with few options is its --help."""
    assert show_help("lint", "--help-all") == show_help("lint", "--help")
    assert "--help-all" not in show_help("lint", "--help")


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("columns", [50, 80])
@pytest.mark.parametrize("words", [(), *((name,) for name in LONG), ("slurm", "prolog"), ("lint",)])
def test_a_help_fits_its_terminal(words: tuple[str, ...], columns: int, lang: str) -> None:
    """All lines but commands, which are to be pasted, and at 80 columns those as well."""
    lines = show_help(*words, "--help", columns=columns, lang=lang).splitlines()
    wide = [line for line in lines if width.display_width(line) > columns]

    assert [line for line in wide if columns >= 80 or not COMMAND.match(line)] == []


@pytest.mark.parametrize("words", [(), *((name,) for name in main.COMMANDS), ("runs", "show"), ("slurm", "prolog")])
def test_a_chinese_help_is_chinese(words: tuple[str, ...]) -> None:
    """No heading, word for a value or sentence is left in English."""
    text = show_help(*words, *(["--help-all"] if words else ["--help"]), lang="zh")
    prose = [line for line in text.splitlines() if not COMMAND.match(line)]
    options_of = [re.split(r"\s{2,}", line.strip())[0] for line in prose if re.match("  -", line)]

    assert text.startswith("用法：") and "[选项]" in text
    assert [word for word in options_of if re.search(r"(?<![-\w])[A-Z][A-Z_]+", word)] == []
    assert [line for line in prose if re.search(r"[a-z]{2,} (?:the|of|and|to|for|with|is|are) [a-z]", line)] == []
