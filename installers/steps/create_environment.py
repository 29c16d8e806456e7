"""Create a virtual environment on this host with the chosen Python, which uv or conda get first where it is missing."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from envcheck.core.errors import StepError
from envcheck.core.messages import Message, _, verbatim
from installers.plan import interpreters
from installers.plan.interpreters import Interpreter
from installers.plan.step import Step
from installers.software import pip_runner
from installers.state import venv_parts
from installers.state.journal import Entry
from installers.steps.shell_script import ScriptTarget, render_secret_notes, split_secrets
from installers.steps.target_state import DesiredState, TargetState
from installers.steps.venv_state import VenvState
from installers.steps.work import StepContext

DEADLINE_S = 300.0  # 4 s on two cores; on a slow network disk ensurepip alone takes a minute
SIZE_MIB, OBTAINED_MIB = 25, 200


@dataclass(frozen=True, kw_only=True)
class CreateEnvironment(Step):
    """Creates the environment in the folder that all steps share; `obtained` is the Python that is got first."""

    name: ClassVar[str] = "environment"
    base_s: ClassVar[int] = 4  # measured on two cores

    obtained: Interpreter | None = None


def plan(desired: DesiredState, current: TargetState, planned: Sequence[Step]) -> Iterator[CreateEnvironment]:
    if isinstance(current, VenvState) and current.is_rebuilt:
        undo = _("envcheck provision --recipe {name} --undo, or delete the folder", name=desired.recipe.name)
        chosen, folder = current.host.chosen, current.environment.folder
        title = _("create a virtual environment with Python {python}", python=current.host.python)
        changes, size = _("creates {folder}", folder=folder), SIZE_MIB
        if chosen and chosen.obtain:
            title = _(
                "get Python {python} with {tool}, create a virtual environment with it",
                python=chosen.version,
                tool=chosen.origin,
            )
            home = interpreters.obtained_folder()
            changes, size = _("creates {folder} and {home}", folder=folder, home=home), SIZE_MIB + OBTAINED_MIB
        elif chosen and chosen.origin:
            title = _(
                "create a virtual environment with Python {python} ({origin}: {path})",
                python=chosen.version,
                origin=chosen.origin,
                path=chosen.path,
            )
        obtained = chosen if chosen and chosen.obtain else None
        yield CreateEnvironment(title, _("none exists yet"), changes, undo, size, obtained=obtained)


def apply(step: CreateEnvironment, work: StepContext) -> Message:
    chosen = work.host.chosen
    if chosen and chosen.obtain:
        chosen = interpreters.obtain_interpreter(chosen, work.target.site)
        work.report_text(_("Python {python}: {path}", python=chosen.version, path=chosen.path))
    argv = (chosen.path if chosen else work.host.interpreter, "-I", "-m", "venv", str(work.folder))
    done = work.target.run_command(argv, timeout_s=DEADLINE_S, env=pip_runner.pip_environment(work.target))
    pip_runner.write_log(work.state_folder / "venv.log", f"$ {' '.join(argv)}\n{done.out}\n{done.err}")
    if done.status == 0:
        return _("Python {python}", python=chosen.version if chosen else work.host.python)
    if "No space left" in done.out + done.err:
        raise StepError(_("no space left on the disk"), _("free disk space, then run the same command again"))
    lines = [line for line in (done.out + done.err).splitlines() if line.strip()]
    next_step = (
        _("on Debian and Ubuntu, run `apt-get install python3-venv`")
        if "ensurepip" in done.out + done.err
        else _("see the log: {path}", path=work.state_folder / "venv.log")
    )
    reason = verbatim(lines[-1]) if lines else _("exit code {status}", status=done.status)
    raise StepError(_("python -m venv failed: {reason}", reason=reason), next_step)


def verify(step: CreateEnvironment, work: StepContext) -> Message | None:
    env = work.target.read_environment()
    if not env.works or not env.python:
        return _("{interpreter} does not exist", interpreter=env.interpreter)
    return None if env.packages.get("pip") else _("the new environment has no pip")


def undo(entry: Entry, folder: Path) -> Message:
    """Remove the environment with its packages; other files in the folder stay."""
    for path in venv_parts.list_own(folder):
        venv_parts.remove_path(path)
    return _("removed")


def script(step: CreateEnvironment, at: ScriptTarget) -> Iterator[str]:
    if step.obtained is None:
        yield f'{shlex.quote(at.interpreter)} -I -m venv -- "$venv"'
        return
    folder, _unused, rest = step.obtained.path.partition("*")
    yield f"mkdir -p -- {shlex.quote(str(interpreters.obtained_folder()))}"
    mirrors, secret = split_secrets(interpreters.list_mirrors(at.site))
    yield from render_secret_notes(secret)
    yield "".join(f"{name}={shlex.quote(url)} " for name, url in mirrors.items()) + shlex.join(step.obtained.obtain)
    yield f"python=({shlex.quote(folder)}{'*' if rest else ''}{rest})"
    yield '"${python[0]}" -I -m venv -- "$venv"'
