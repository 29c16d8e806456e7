"""envcheck init: ask for the job of this folder, write it to envcheck.toml, and show what to run next."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from envcheck.cli import options
from envcheck.cli.json_document import print_document
from envcheck.cli.requests import command, flag
from envcheck.core.errors import UsageError
from envcheck.core.language import translate
from envcheck.core.messages import Message, _, join
from envcheck.settings.site_config import NAME, JobDefaults

USUAL_METHOD = "lora"
STARTER = """\
# Settings of envcheck in this folder. "envcheck init --help" shows how to write it; the page "Files and environment
# variables" of the documentation lists all tables.

# The job of doctor, plan, provision and train if the command line names none: --model, --method and --device.
[job]
model = "{model}"
method = "{method}"
device = "{device}"

# Accept a finding up to a date:
# [[waive]]
# check = "host.swap"
# reason = "this host has no other disk"
# expires = 2027-01-31

# Mirrors, proxy and mounts of the site belong in ~/.config/envcheck/envcheck.toml.
"""


@dataclass(frozen=True, kw_only=True)
class InitOptions(options.JsonOption, options.ModelOptions):
    force: bool = flag("--force", help="Replace an existing envcheck.toml.")


@command(InitOptions, short_help="Choose model, method and device for this folder.")
def init(request: InitOptions) -> None:
    """Ask for the device, the model and the method, write them to envcheck.toml, and show the commands to run.

    In this folder doctor, plan, provision and train then use that job if their command line names none.  Without a
    terminal, the three options are required.

    \b
    envcheck init                                            answer three questions
    envcheck init --model 21b --method lora --device npu     ask nothing
    envcheck init --model tiny --method lora --device auto   use the devices of this machine
    """
    file = Path(NAME)
    if file.exists() and not request.force:
        raise UsageError(
            _("{file} already exists", file=file), _("add a table [job] to it, or replace it with --force")
        )
    job = _choose_job(request)
    from envcheck.core import local_files

    text = STARTER.format(model=job.model, method=job.method, device=job.device)
    local_files.write_file(file, text, is_new=not request.force)
    commands = _list_commands(job)
    if request.as_json:
        shown = {"model": job.model, "method": job.method, "device": job.device}
        print_document({"file": str(file.absolute()), "job": shown, "commands": [line for line, _why in commands]})
        return
    click.echo(translate(_("wrote {file}: {model}, {method}, {device}", file=file, model=job.model, method=job.method,
                           device=job.device)))  # fmt: skip
    click.echo(translate(_("Run in this folder:")))
    wide = max(len(line) for line, _why in commands)
    for line, why in commands:
        click.echo(f"  {line:<{wide}}   {translate(why)}")


def _choose_job(request: InitOptions) -> JobDefaults:
    """Return the job of the options; ask for what they lack. UsageError if that is impossible, or no recipe has it."""
    from installers.recipes import catalogue

    known = catalogue.load_all()
    _refuse_missing_options(request)
    device = _choose_device(request)
    offers = catalogue.list_possible(known, request.model, request.method, device, None)
    model = request.model or _ask(_("Model"), list(dict.fromkeys(recipe.models[0] for recipe, _job in offers)))
    offers = catalogue.list_possible(known, model, request.method, device, None)
    method = request.method
    if method is None:
        names = list(dict.fromkeys(job.method for _recipe, job in offers))
        method = _ask(_("Method"), names, USUAL_METHOD if USUAL_METHOD in names else names[0])
    recipe, job = catalogue.list_possible(known, model, method, device, None)[0]
    # The catalogue's own name: what was typed may hold characters that TOML does not allow in a text.
    return JobDefaults(recipe.name if model.lower() == recipe.name else recipe.models[0], job.method, device)


def _refuse_missing_options(request: InitOptions) -> None:
    """Without a terminal nobody can answer."""
    words = {"model": "--model", "method": "--method", "device": "--device"}
    missing = [word for name, word in words.items() if name not in request.given]
    if missing and (request.as_json or not (sys.stdin.isatty() and sys.stdout.isatty())):
        raise UsageError(
            _("without a terminal, envcheck init needs {missing}", missing=join(", ", missing)),
            _("for example: envcheck init --model tiny --method lora --device auto"),
        )


def _choose_device(request: InitOptions) -> str:
    if request.device != "auto":
        return request.device
    from envcheck.job.local_facts import collect_facts_here
    from envcheck.job.request import JobRequest
    from envcheck.job.select import find_local_device
    from envcheck.report import screen
    from envcheck.vendors import VENDORS

    with screen.show_hint(_("collecting facts from this machine ...")):
        facts = collect_facts_here(JobRequest())
    if "device" in request.given:
        return find_local_device(facts)
    found = [vendor.name for vendor in facts.vendors] or ["cpu"]
    return _ask(_("Device"), list(VENDORS), found[0])


def _ask(question: Message, names: Sequence[str], default: str = "") -> str:
    """Ask for one of the names, by name, a part of it or its number; return the name."""
    click.echo(f"{translate(question)}{translate(_(': '))}")
    for number, name in enumerate(names, 1):
        click.echo(f"  {number:>2}  {name}")
    first = default or names[0]
    return str(click.prompt(translate(_("number or name")), default=first, value_proc=_make_reader(names)))


def _make_reader(names: Sequence[str]) -> Callable[[str], str]:
    def read(text: str) -> str:
        word = text.strip().lower()
        if word.isdecimal() and 0 < int(word) <= len(names):
            return names[int(word) - 1]
        exact = [name for name in names if name.lower() == word]
        near = exact or [name for name in names if word and word in name.lower()]
        if len(near) != 1:
            raise click.UsageError(translate(_("enter a number from 1 to {count}, or a name", count=len(names))))
        return near[0]

    return read


def _list_commands(job: JobDefaults) -> list[tuple[str, Message]]:
    """The three commands, each with what it does."""
    from envcheck.job.next_command import needs_weights
    from installers.recipes import catalogue

    recipe, found = catalogue.list_possible(catalogue.load_all(), job.model, job.method, job.device, None)[0]
    fetch = " --fetch-weights" if needs_weights(recipe, found) else ""
    # `envcheck infer` takes no job of a file, and several chat programs may know the model.
    named = shlex.join(("--recipe", recipe.name, "--method", found.method))
    last = (
        (f"envcheck infer {named}", _("chat with the model"))
        if found.method in catalogue.TALKS
        else ("envcheck train", _("start the training"))
    )
    return [
        ("envcheck doctor", _("check this machine for the job")),
        (f"envcheck provision{fetch}", _("install what the job needs, and verify it")),
        last,
    ]
