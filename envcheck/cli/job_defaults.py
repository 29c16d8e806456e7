"""The job of envcheck.toml, for a command that names none: as if its options were on the command line."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import click
from click.core import ParameterSource

from envcheck.core.language import translate
from envcheck.core.messages import _

COMMANDS = ("bundle", "doctor", "plan", "provision", "train")
FIELDS = ("model", "method", "device")
# With one of these, the command has a job already, or is about a machine or an installation that is not of this folder.
DECIDING = ("recipe", "recipes", "words", "extra", "bundle", "locked", "replay", "resume", "driver")
OF_ANOTHER_JOB = ("framework", "variant", "node_role")  # what the table has no key for


def add_job(given: Collection[str], known: Collection[str]) -> dict[str, str]:
    """Return the options that the table [job] adds to the current command; {} if it does not apply.

    `given` are the options on the command line, `known` those of this kind of request.  With an option that selects
    another job or other devices, the table is not used, which a line on standard error tells.
    """
    context = click.get_current_context()
    if context.info_name not in COMMANDS or not {*FIELDS} <= {*known} or any(name in given for name in DECIDING):
        return {}
    from envcheck import settings

    found = settings.load_settings(context.params.get("config"))
    own = {name: value for name in FIELDS if (value := getattr(found.job, name))}
    added = {name: value for name, value in own.items() if name not in given}
    if conflicts := [name for name in (*FIELDS, *OF_ANOTHER_JOB) if name in given and _is_conflict(name, own, context)]:
        if added:
            options = " ".join(f"--{name.replace('_', '-')}" for name in conflicts)
            click.echo(
                translate(_("job of {file} not used, because of {options}", file=found.file, options=options)), err=True
            )
        return {}
    for name, value in added.items():  # so that the command for other hosts has them, too
        context.params[name] = value
        context.set_parameter_source(name, ParameterSource.COMMANDLINE)
    if added:
        words = " ".join(f"--{name} {ascii(value)[1:-1]}" for name, value in added.items())
        click.echo(translate(_("job of {file}: {words}", file=found.file, words=words)), err=True)
    return added


def _is_conflict(name: str, own: Mapping[str, str], context: click.Context) -> bool:
    """Whether this option of the command line selects another job than `own`, or its devices another machine.

    Another method is the same job trained differently, and plan answers for any device.
    """
    if name == "method" or (name == "device" and context.info_name == "plan"):
        return False
    return own.get(name, "").lower() not in ("auto", str(context.params[name]).lower())
