"""click's usage errors in the form of ours: a message and a next step.

The nearest name is searched here, because click's versions differ in what they suggest.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import click

from envcheck.cli.number_types import NotInRangeError
from envcheck.core import errors, paths, suggestions
from envcheck.core.messages import Message, _, fill, join, mark, verbatim

LONGEST = 600  # characters: a command-line word may have a hundred thousand
_WORDS = "envcheck.words"  # of a context: what was given to its group
# Options as other tools call them → ours, where the command has it: the nearest spelling means another thing.
SYNONYMS = {
    **dict.fromkeys(("--card", "--gpu", "--npu", "--accelerator", "--device-type", "--hardware"), "--device"),
    **dict.fromkeys(("--gpus", "--npus", "--devices", "--num-gpus", "--num-cards", "--world-size"), "--cards"),
    **dict.fromkeys(("--num-nodes", "--nnodes", "--machines"), "--nodes"),
    **dict.fromkeys(("--tensor-parallel", "--tensor-parallel-size"), "--tp"),
    **dict.fromkeys(("--pipeline-parallel", "--pipeline-parallel-size"), "--pp"),
    **dict.fromkeys(("--expert-parallel", "--expert-parallel-size"), "--ep"),
    **dict.fromkeys(("--max-length", "--sequence-length", "--context-length", "--cutoff-len"), "--seq-len"),
    **dict.fromkeys(("--batch-size", "--per-device-train-batch-size"), "--micro-batch"),
    **dict.fromkeys(("--memory", "--vram"), "--memory-gib"),
    **dict.fromkeys(("--language", "--locale"), "--lang"),
}
CHOICE = re.compile(r"(['\"])(.{0,400})\1 is not one of ", re.S)  # click's message for a value that is not in a Choice


class SuggestingGroup(click.Group):
    """Reports the word that is not a subcommand; without a word, shows its help.

    click does the first only in a text; for the second, its versions use different streams and exit codes.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args and self.no_args_is_help and not ctx.resilient_parsing:
            click.echo(ctx.get_help(), err=True)
            ctx.exit(errors.USAGE)
        ctx.meta[_WORDS] = tuple(args)
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        word = str(args[0])
        if word.startswith("-") or ctx.resilient_parsing or self.get_command(ctx, word):
            return super().resolve_command(ctx, args)
        raise NoSuchCommandError(word, ctx)


class SingleValueCommand(click.Command):
    """Rejects an option that is given repeatedly with different values; click silently uses the last."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        given = list(args)  # click removes words from it
        rest = super().parse_args(ctx, args)
        if not ctx.resilient_parsing:
            _refuse_repeated_options(self, ctx, given)
        return rest


def _refuse_repeated_options(command: click.Command, ctx: click.Context, args: list[str]) -> None:
    """Raise UsageError for an option of one value that has several."""
    parser = type(command.make_parser(ctx))(ctx)
    single = [p for p in command.get_params(ctx) if isinstance(p, click.Option) and not (p.is_flag or p.multiple)]
    for param in command.get_params(ctx):
        if param in single:
            parser.add_option(param, param.opts, param.name, action="append", nargs=param.nargs)
        else:
            param.add_to_parser(parser, ctx)
    said = parser.parse_args(args)[0]
    for param in single:
        values = said.get(str(param.name))
        if isinstance(values, list) and len(set(values)) > 1:
            words = _(
                "{opts} is given {values_count} times, but accepts one value",
                opts=param.opts[0],
                values_count=len(values),
            )
            raise errors.UsageError(words, _("use only one of them"))


class NoSuchCommandError(click.UsageError):
    """`word` is not a command of the group."""

    def __init__(self, word: str, ctx: click.Context) -> None:
        super().__init__(f"No such command {word!r}.", ctx)
        self.word = word


def refuse_bad_values(command: click.Command) -> None:
    """Make each option and argument reject values that are never valid, before a type turns them into a path."""
    command.parse_args = _make_parse_args(command)  # type: ignore[method-assign]
    for param in command.params:
        if param.type is not click.UNPROCESSED:  # arguments of another program
            param.consume_value = _make_consume_value(param)  # type: ignore[method-assign]


def _make_parse_args(command: click.Command) -> Any:
    """click's parser does not know whose option lacks a value: the next step would name the wrong help."""

    def parse_args(ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return type(command).parse_args(command, ctx, args)
        except click.UsageError as err:
            err.ctx = err.ctx or ctx
            raise

    return parse_args


def _make_consume_value(param: click.Parameter) -> Any:
    def consume_value(ctx: click.Context, opts: Any) -> Any:
        value, source = type(param).consume_value(param, ctx, opts)
        if source is COMMANDLINE and not ctx.resilient_parsing:
            _check_values(param, value if isinstance(value, (tuple, list)) else (value,))
        return value, source

    return consume_value


def _check_values(param: click.Parameter, values: Iterable[object]) -> None:
    """Raise UsageError for an empty value, which as a path would mean the current folder, and for invalid paths."""
    name = _name(param)
    for value in values:
        if value == "":
            raise errors.UsageError(_("{name}: the value is empty", name=name), EMPTY)
        if isinstance(param.type, click.Path) and isinstance(value, str):
            paths.require_possible_path(value, name)


LISTING = ("list", "ls")  # what other tools call a group's default command
COMMANDLINE = click.core.ParameterSource.COMMANDLINE
EMPTY = _("Give a value, or remove the option. In a script, check that the variable is set.")


# Click's messages, with our capitalization, for translation.
CLICKS = (
    (r"no such option: (?P<option>\S+)", mark("no such option: {option}")),
    (r"no such option (?P<option>'[^']*')\.", mark("no such option {option}")),
    (r"no such command (?P<command>.+)\.", mark("no such command {command}")),
    (r"missing argument (?P<argument>'[^']*')\.", mark("missing argument {argument}")),
    (r"missing option (?P<option>'[^']*'(?: / '[^']*')*)\.", mark("missing option {option}")),
    (r"missing command\.", mark("missing command")),
    (r"option (?P<option>'[^']*') requires an argument\.", mark("option {option} requires an argument")),
    (r"got unexpected extra argument \((?P<words>.*)\)", mark("got unexpected extra argument ({words})")),
    (r"got unexpected extra arguments \((?P<words>.*)\)", mark("got unexpected extra arguments ({words})")),
    (r"invalid value for (?P<option>'[^']*'|[^\s:]+): (?P<problem>.*)", mark("invalid value for {option}: {problem}")),
)
PROBLEMS = (
    (r"(?P<given>.{0,400}) is not one of (?P<choices>.*)\.", mark("{given} is not one of {choices}")),
    (r"(?P<given>.{0,400}) is not a valid integer\.", mark("{given} is not a valid integer")),
    (r"(?P<given>.{0,400}) is not a valid integer range\.", mark("{given} is not a valid integer range")),
    (r"(?P<given>.{0,400}) is not a valid float\.", mark("{given} is not a valid float")),
    (r"(?P<given>.{0,400}) is not in the range (?P<range>.*)\.", mark("{given} is not in the range {range}")),
)


def describe_error(err: click.ClickException) -> Message:
    """Return the message on one line, without the names that click suggests."""
    match err:
        case NoSuchCommandError():
            return _("no such command {word!r}", word=_shorten(err.word))
        case NotInRangeError(param=click.Parameter() as param):
            return _("{option}: {reason}", option=_name(param), reason=err.reason)
        case click.BadParameter(param=click.Parameter(type=click.Choice() as kind) as param):
            if value := CHOICE.search(err.message):
                choices = join(", ", map(str, kind.choices))
                words = {"option": _name(param), "value": _shorten(value[2]), "choices": choices}
                return _("{option}: {value!r} is not one of {choices}", **words)
    bare = isinstance(err, click.NoSuchOption)
    text = _shorten(" ".join((err.message if bare else err.format_message()).split()))
    text = text[:1].lower() + text[1:]
    for pattern, template in CLICKS:
        if found := re.fullmatch(pattern, text):
            return fill(
                template,
                **{name: part if name != "problem" else _of_click(part) for name, part in found.groupdict().items()},
            )
    return verbatim(text)


def _of_click(problem: str) -> Message:
    """The text after "invalid value for ...": of click's types or ours."""
    for pattern, template in PROBLEMS:
        if found := re.fullmatch(pattern, problem):
            return fill(template, **found.groupdict())
    return fill(problem.removesuffix("."))


def _shorten(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST // 2]} ... {text[-LONGEST // 2 :]}"


def _name(param: click.Parameter) -> str:
    """The long name of an option."""
    return max(param.opts, key=len) if isinstance(param, click.Option) else param.human_readable_name.strip("[]")


def suggest_next_step(err: click.ClickException) -> Message:
    """Return the nearest name, and the help that lists all."""
    context = getattr(err, "ctx", None)
    path = context.command_path if context else "envcheck"
    if context and isinstance(err, NoSuchCommandError) and err.word in LISTING and _lists_by_default(context.command):
        return _("run {path}, which prints the list", path=path)
    near = suggest_nearest(err, context) if context else ""
    return _("did you mean {near}? Run {path} --help.", near=near, path=path) if near else verbatim(f"{path} --help")


def _lists_by_default(command: click.Command) -> bool:
    return isinstance(command, click.Group) and command.invoke_without_command


def suggest_nearest(err: click.ClickException, context: click.Context) -> str:
    """Return the likely intended word, as it is to be written; "" if none is similar."""
    match err:
        case NoSuchCommandError() if isinstance(context.command, click.Group):
            found = _find_close_match(err.word, context.command.list_commands(context))
            return f"{context.command_path} {found}" if found else ""
        case click.NoSuchOption():
            known = _list_options(context)
            synonym = SYNONYMS.get(err.option_name.replace("_", "-"), "")
            named = synonym if synonym in known else _find_command_of_option(err.option_name, context)
            return named or _find_close_match(err.option_name, known)
        case click.BadParameter(param=click.Parameter(type=click.Choice() as kind)):
            value = CHOICE.search(err.message)
            return _find_close_match(value[2], map(str, kind.choices)) if value else ""
    return ""


def _find_command_of_option(option: str, context: click.Context) -> str:
    """Return the command with an option that was given before it, behind it; "" if it has no such option."""
    group = context.command
    if not isinstance(group, click.Group):
        return ""
    names = group.list_commands(context)
    given = next((word for word in context.meta.get(_WORDS, ()) if word in names), "")
    commands = (group.get_command(context, name) for name in ([given] if given else names))
    has_option = any(option in param.opts for command in commands if command for param in command.params)
    return f"{context.command_path} {given or 'COMMAND'} {option}" if has_option else ""


def _list_options(context: click.Context) -> list[str]:
    params = context.command.get_params(context)  # with --help
    return [word for param in params for word in (*param.opts, *param.secondary_opts) if word.startswith("--")]


def _find_close_match(word: str, known: Iterable[str]) -> str:
    return next(iter(suggestions.find_nearest(word, known)), "")
