"""Verify the installation: import the packages, run a matmul on every card, and an all-reduce across processes."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from envcheck.core.errors import StepError
from envcheck.core.messages import NOTHING, Message, _, join, ngettext
from installers.bundle import recipe_locks
from installers.locks import enforcement
from installers.plan.step import Step
from installers.recipes.recipe import Recipe
from installers.state.environment import is_proven
from installers.state.journal import Entry
from installers.steps import proof_record
from installers.steps.shell_script import ScriptTarget, fill_word, render_comment
from installers.steps.target_state import DesiredState, TargetState
from installers.steps.work import StepContext
from installers.verify import environment_checks
from installers.verify.device_checks import list_proofs
from installers.verify.frameworks import source_scripts

_TELL = """import importlib, importlib.metadata, sys
for name, _, module in (word.partition("=") for word in sys.argv[1:]):
    module and importlib.import_module(module)
    print(name, importlib.metadata.version(name))"""


@dataclass(frozen=True, kw_only=True)
class VerifyEnvironment(Step):
    """Verifies the recipe that all steps share."""

    name: ClassVar[str] = "proof"
    base_s: ClassVar[int] = 60  # measured with 16 cards


def plan(desired: DesiredState, current: TargetState, planned: Sequence[Step]) -> Iterator[VerifyEnvironment]:
    """Yield the verification after any other step, and if the last successful one is no longer valid."""
    if (
        not planned
        and current.kept_environment
        and is_proven(desired.supply.recipe, current.kept_environment, current.sources.versions)
    ):
        return
    was_proved = current.known_state and current.known_state.was_proved(desired.recipe.name)
    checks = [_("import the packages"), *(words for words, _unused in list_proofs(desired.recipe))]
    if count := len(desired.recipe.verify):
        checks.append(ngettext("run {count} command of the recipe", "run {count} commands of the recipe", count))
    yield VerifyEnvironment(
        _("verify: {checks}", checks=join(", ", checks)),
        _("not verified since the last change") if was_proved else _("verify the installation on the hardware"),
        _("only state and logs in .envcheck"),
        _("not needed"),
    )


def apply(step: VerifyEnvironment, work: StepContext) -> Message:
    """Check the installed versions against the lock file, if there is one, run all checks, and record the result."""
    if lock := work.effective_supply.lock:
        there, image = dict(work.target.read_environment().packages), proof_record.find_image(work)
        commits = {each.directory: each.commit for each in recipe_locks.read_commits(work.recipe, work.target)}
        for difference in enforcement.find_differences(lock, packages=there, image=image, commits=commits):
            raise StepError(difference, enforcement.NEXT)
    result = environment_checks.verify_all(work.recipe, work.target, work.report_text)
    proof_record.keep_proof(work)
    return result


def verify(step: VerifyEnvironment, work: StepContext) -> Message | None:
    """Return None: `apply` fails if a check fails."""
    return None


def undo(entry: Entry, folder: Path) -> Message:
    """Do nothing: it only changed envcheck's own records, which are removed last."""
    return NOTHING


def script(step: VerifyEnvironment, at: ScriptTarget) -> Iterator[str]:
    """Yield the imports and the recipe's own commands, with the variables and scripts of a training as in `apply`; a
    script cannot check the cards."""
    recipe, run = at.recipe, f"{at.command_prefix}{_render_surroundings(at.recipe)}"
    yield from render_comment("envcheck provision also runs a matmul on every card and an all-reduce across processes.")
    quoted = ["# shellcheck disable=SC2016  # the inner shell expands it"] if recipe.scripts else []
    if recipe.packages:
        yield from quoted
        modules = environment_checks.list_modules(recipe)
        words = shlex.join(f"{name}={module}" if module else name for name, module in modules.items())
        yield f"{run}{at.python_word} -I -c {shlex.quote(_TELL)} {words}"
    for command in recipe.verify:
        yield from quoted
        argv = " ".join(fill_word(part, {"python": at.python_word}) for part in command)
        yield f"{run}{argv}"


def _render_surroundings(recipe: Recipe) -> str:
    """Return what goes in front of a command, for the shell: the variables, then the recipe's scripts are sourced."""
    unset = [word for name in recipe.unset for word in ("-u", name)]
    given = [f"{name}={value}" for name, value in environment_checks.job_variables(recipe).items()]
    return f"{shlex.join(['env', *unset, *given, *source_scripts(recipe, ())])} "
