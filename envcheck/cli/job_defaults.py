"""The job of envcheck.toml, for a command that names none: as if its options were on the command line."""

from __future__ import annotations

from collections.abc import Collection

import click
from click.core import ParameterSource

from envcheck.core.language import translate
from envcheck.core.messages import _

COMMANDS = ("doctor", "plan", "provision", "train")
FIELDS = ("model", "method", "device")
# With one of these, the command has a job already, or is about a machine or an installation that is not of this folder.
DECIDING = (
    *FIELDS, "recipe", "framework", "variant", "node_role", "recipes", "words", "extra", "bundle", "locked", "replay",
    "resume", "driver",
)  # fmt: skip


def add_job(given: Collection[str], known: Collection[str]) -> dict[str, str]:
    """Return the options that the table [job] adds to the current command; {} if it does not apply.

    `given` are the options on the command line, `known` those of this kind of request.
    """
    context = click.get_current_context()
    if context.info_name not in COMMANDS or not {*FIELDS} <= {*known} or any(name in given for name in DECIDING):
        return {}
    from envcheck import settings

    found = settings.load_settings(context.params.get("config"))
    added = {name: value for name in FIELDS if (value := getattr(found.job, name))}
    for name, value in added.items():  # so that the command for other hosts has them, too
        context.params[name] = value
        context.set_parameter_source(name, ParameterSource.COMMANDLINE)
    if added:
        words = " ".join(f"--{name} {ascii(value)[1:-1]}" for name, value in added.items())
        click.echo(translate(_("job of {file}: {words}", file=found.file, words=words)), err=True)
    return added
