"""What click has against the words of a command line, as our own refusals look: a sentence, and what to do.

The nearest name is looked for here: which of click's versions offer one, of what, and in which order, differs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import click

from envcheck.core import errors, paths

NEAR = 0.6
LONGEST = 600  # characters: a word of the command line may have a hundred thousand
CHOICE = re.compile(r"(['\"])(.*)\1 is not one of ", re.S)  # click's words of a value that is none of a Choice


class Group(click.Group):
    """Names the word that is no command of it, and without a word shows its help as it is.

    Click's own does the first in a text alone; the second its versions do here or there, with one exit code or another.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args and self.no_args_is_help and not ctx.resilient_parsing:
            click.echo(ctx.get_help(), err=True)
            ctx.exit(errors.USAGE)
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        word = str(args[0])
        if word.startswith("-") or ctx.resilient_parsing or self.get_command(ctx, word):
            return super().resolve_command(ctx, args)
        raise NoSuchCommandError(word, ctx)


class Once(click.Command):
    """Refuses what is said twice and not alike, where one value is wanted: click's own keeps the last, in silence."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        given = list(args)  # click takes words out of it
        rest = super().parse_args(ctx, args)
        if not ctx.resilient_parsing:
            _said_once(self, ctx, given)
        return rest


def _said_once(command: click.Command, ctx: click.Context, args: list[str]) -> None:
    """UsageError for an option of one value that has several."""
    parser = type(command.make_parser(ctx))(ctx)
    single = [p for p in command.get_params(ctx) if isinstance(p, click.Option) and not (p.is_flag or p.multiple)]
    for param in command.get_params(ctx):
        if param in single:
            parser.add_option(param, param.opts, param.name, action="append", nargs=param.nargs)
        else:
            param.add_to_parser(parser, ctx)
    said, _, _ = parser.parse_args(args)
    for param in single:
        values = said.get(str(param.name))
        if isinstance(values, list) and len(set(values)) > 1:
            words = f"{param.opts[0]} is said {len(values)} times; only the last would count"
            raise errors.UsageError(words, "say it once")


class NoSuchCommandError(click.UsageError):
    """`word` is none of the group's commands."""

    def __init__(self, word: str, ctx: click.Context) -> None:
        super().__init__(f"No such command {word!r}.", ctx)
        self.word = word


def look_at_values(command: click.Command) -> None:
    """Have each option and argument of the command refuse what is never a value, before a type makes a path of it."""
    command.parse_args = _parsing(command)  # type: ignore[method-assign]
    for param in command.params:
        if param.type is not click.UNPROCESSED:  # another program's words
            param.consume_value = _consuming(param)  # type: ignore[method-assign]


def _parsing(command: click.Command) -> Any:
    """click's parser does not say whose option lacks its value: the next step would name the help of all."""

    def parse_args(ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return type(command).parse_args(command, ctx, args)
        except click.UsageError as err:
            err.ctx = err.ctx or ctx
            raise

    return parse_args


def _consuming(param: click.Parameter) -> Any:
    def consume_value(ctx: click.Context, opts: Any) -> Any:
        value, source = type(param).consume_value(param, ctx, opts)
        if source is COMMANDLINE and not ctx.resilient_parsing:
            _look(param, value if isinstance(value, (tuple, list)) else (value,))
        return value, source

    return consume_value


def _look(param: click.Parameter, values: Iterable[object]) -> None:
    """UsageError for an empty text, which as a path would mean this folder, for a path that no file can have, and for
    nan, which no range refuses."""
    name = param.opts[0] if isinstance(param, click.Option) else param.human_readable_name.strip("[]")
    of_file = isinstance(param.type, click.Path) or param.metavar in PLACES
    for value in values:
        if value == "":
            raise errors.UsageError(f"{name}: an empty text", EMPTY)
        if of_file and isinstance(value, str):
            paths.can_be(value, name)
        if isinstance(param.type, click.FloatRange) and str(value).strip().lstrip("+-").lower() == "nan":
            ends = param.type
            raise errors.UsageError(f"{name}: {value} is no number", f"give one from {ends.min:g} to {ends.max:g}")


PLACES = ("FILE", "DIR", "VENV", "FILE.run")  # metavars of options that are paths without click's type for them
COMMANDLINE = click.core.ParameterSource.COMMANDLINE
EMPTY = "give a value, or leave it away; in a script: is the variable set that it comes from?"


def said(err: click.ClickException) -> str:
    """The sentence, in one line, without the names that click would offer."""
    bare = isinstance(err, click.NoSuchOption)
    text = " ".join((err.message if bare else err.format_message()).split())
    text = text if len(text) <= LONGEST else f"{text[: LONGEST // 2]} ... {text[-LONGEST // 2 :]}"
    return f"{text[:1].lower()}{text[1:]}"


def next_step(err: click.ClickException) -> str:
    """The nearest that there is, and the help that names all."""
    context = getattr(err, "ctx", None)
    path = context.command_path if context else "envcheck"
    near = nearest(err, context) if context else ""
    return f"did you mean {near}? {path} --help" if near else f"{path} --help"


def nearest(err: click.ClickException, context: click.Context) -> str:
    """What was probably meant, as it is to be written; "" where nothing is near."""
    match err:
        case NoSuchCommandError() if isinstance(context.command, click.Group):
            found = _near(err.word, context.command.list_commands(context))
            return f"{context.command_path} {found}" if found else ""
        case click.NoSuchOption():
            return _near(err.option_name, _options(context))
        case click.BadParameter(param=click.Parameter(type=click.Choice() as kind)):
            value = CHOICE.search(err.message)
            return _near(value[2], map(str, kind.choices)) if value else ""
    return ""


def _options(context: click.Context) -> list[str]:
    params = context.command.get_params(context)  # with --help
    return [word for param in params for word in (*param.opts, *param.secondary_opts) if word.startswith("--")]


def _near(word: str, known: Iterable[str]) -> str:
    import difflib  # only a slip pays for it

    return next(iter(difflib.get_close_matches(word[:80].lower(), list(known), 1, NEAR)), "")
