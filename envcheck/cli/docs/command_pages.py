"""reference/commands.md and reference/exit-codes.md: what --help says, each shared option once."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

import click

from envcheck.cli.docs.markdown_table import NOTE, cell, code, table
from envcheck.cli.main import COMMANDS, main
from envcheck.cli.translate_help import split_paragraphs
from envcheck.core import errors

Record = tuple[str, str]  # the option with its value, and its help
EXAMPLE = re.compile(r"(\S.*?)(\s{2,})(\S.*)")  # two blanks and more separate an example from its description
SHARED = 3  # an option that so many commands have, with the same help, is described once

MEANINGS = {
    0: "Success: the verdict is good, or the work is done.",
    1: "A check failed, a preflight check failed, or something is left for a person to do.",
    2: "Usage error: an unknown name, an unreadable file, options that exclude each other.",
    3: "Undetermined: nothing failed, but a check could not run or none applied. With `--strict` also a warning.",
    4: "A provisioning or launch step failed.",
    5: "The training failed, was stopped by a rule, or gave no answer.",
    6: "Done, but a reboot is needed.",
    70: "A bug in envcheck; the message names the file to report.",
    130: "Interrupted by Ctrl-C; by SIGTERM too, where a command has something to undo or to record, else 143.",
}


def commands() -> Iterator[click.Context]:
    """Yield a context for each command, those of a group after it, in the order of --help."""
    above = click.Context(main, info_name="envcheck")
    for name in COMMANDS:
        command = main.get_command(above, name)
        assert command is not None
        yield from _below(command, name, above)


def _below(command: click.Command, name: str, above: click.Context) -> Iterator[click.Context]:
    context = click.Context(command, info_name=name, parent=above)
    yield context
    for inner, each in (getattr(command, "commands", None) or {}).items():
        yield from _below(each, inner, context)


def _records(context: click.Context) -> list[Record]:
    options = [p for p in context.command.params if isinstance(p, click.Option) and not p.hidden]
    return [record for option in options if (record := option.get_help_record(context))]


def commands_page() -> str:
    """Return the page with every command and option."""
    found = {context.command_path: (context, _records(context)) for context in commands()}
    uses = Counter(record for _, records in found.values() for record in records)
    shared = [record for record, count in uses.items() if count >= SHARED]
    lines = [NOTE, "", "# Commands and options", ""]
    lines += [f"The same text is in `envcheck COMMAND --help`. An option that {SHARED} or more commands share is"]
    lines += ["described under [Common options](#common-options) only.", ""]
    index = [(f"[`{path}`](#{_anchor(path)})", cell(_short(context.command))) for path, (context, _) in found.items()]
    lines += [*table(("command", "purpose"), index), "", "## Common options", ""]
    rows = [(code(name), cell(words), _users(found, (name, words))) for name, words in shared]
    lines += table(("option", "meaning", "commands"), rows)
    for path, (context, records) in found.items():
        lines += ["", f"## {path}", "", *_section(context, records, shared)]
    return "\n".join(lines) + "\n"


def _anchor(path: str) -> str:
    return path.replace(" ", "-")


def _short(command: click.Command) -> str:
    return command.short_help or command.get_short_help_str(200)


def _users(found: dict[str, tuple[click.Context, list[Record]]], record: Record) -> str:
    users = [path.removeprefix("envcheck ") for path, (_, records) in found.items() if record in records]
    return "all" if len(users) == len(found) else ", ".join(f"`{user}`" for user in users)


def _section(context: click.Context, records: list[Record], shared: list[Record]) -> Iterator[str]:
    usage = " ".join([context.command_path, *context.command.collect_usage_pieces(context)])
    yield from ("```text", usage, "```")
    for paragraph in split_paragraphs(context.command.help):
        yield ""
        yield from _example_lines(paragraph) if "\b" in paragraph else [cell(paragraph)]
    for heading, own in _grouped(context, shared).items():
        yield from ("", f"**{heading}**", "") if heading else ("",)
        yield from table(("option", "meaning"), [(code(name), cell(words)) for name, words in own])
    common = [f"`{name.split()[0].rstrip(',')}`" for name, words in records if (name, words) in shared]
    if common:
        yield from ("", f"[Common options](#common-options): {', '.join(common)}.")


def _grouped(context: click.Context, shared: list[Record]) -> dict[str, list[Record]]:
    """Return the command's own options by the heading of their group; "" where they have none."""
    found: dict[str, list[Record]] = {}
    for option in context.command.params:
        record = option.get_help_record(context) if isinstance(option, click.Option) and not option.hidden else None
        if record and record not in shared:
            found.setdefault(getattr(getattr(option, "group", None), "value", ""), []).append(record)
    return found


def _example_lines(paragraph: str) -> Iterator[str]:
    """Return the examples, each with its description as a comment behind it."""
    yield "```sh"
    for line in paragraph.replace("\b", "").strip("\n").split("\n"):
        found = EXAMPLE.match(line.strip())
        yield f"{found[1]}{found[2]}# {found[3]}" if found else line.strip()
    yield "```"


def exit_codes_page() -> str:
    """Return the page with the codes, and what each command says of them."""
    codes = {value: name for name, value in vars(errors).items() if name.isupper() and isinstance(value, int)}
    lines = [NOTE, "", "# Exit codes", "", "Every command uses the same codes.", ""]
    lines += table(("code", "meaning"), [(f"`{value}`", MEANINGS[value]) for value in sorted(codes)])
    lines += ["", "`envcheck simulate MACHINE -- COMMAND` exits with the code of COMMAND.", ""]
    lines += ["With `--json`, standard output holds one document, also when the command fails: the keys `error`,"]
    lines += ["`exit_code` and `next` tell what went wrong and what to do ([JSON documents](json.md)).", ""]
    said = []
    for context in commands():
        sentences = [
            " ".join(p.split()) for p in split_paragraphs(context.command.help) if re.match(r"Exit codes?\b", p)
        ]
        said += [(f"`{context.command_path}`", cell(" ".join(sentences)))] if sentences else []
    lines += table(("command", "what its help says"), said) if said else []
    return "\n".join(lines) + "\n"
