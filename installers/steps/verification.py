"""The proof that what was put in place works: packages import, every card computes, all of them add up rightly."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from envcheck.core.errors import StepError
from installers.bundle import lock_notes
from installers.locks import lockfile_use
from installers.plan.step import Step
from installers.state.environment import proven
from installers.state.journal import Entry
from installers.steps import proof_record
from installers.steps.shell_script import ScriptTarget, comment, fill_word
from installers.steps.target_state import DesiredState, TargetState
from installers.steps.work import Work
from installers.verify import verify_environment
from installers.verify.verify_cards import proofs

_TELL = "import importlib.metadata, sys\nfor name in sys.argv[1:]: print(name, importlib.metadata.version(name))"


@dataclass(frozen=True, kw_only=True)
class VerifyEnvironment(Step):
    """Of the recipe that all steps share."""

    name: ClassVar[str] = "proof"
    base_s: ClassVar[int] = 60  # measured with 16 cards


def plan(desired: DesiredState, current: TargetState, planned: Sequence[Step]) -> Iterator[VerifyEnvironment]:
    """After any step, and where the last good proof was of something else."""
    if not planned and current.kept and proven(desired.supply.recipe, current.kept, current.sources.versions):
        return
    was_proved = current.known and current.known.was_proved(desired.recipe.name)
    words = ["import the packages", *(words for words, _ in proofs(desired.recipe))]
    count = len(desired.recipe.verify)
    words += [f"{count} command{'s' if count > 1 else ''} of the recipe's own"] if count else []
    yield VerifyEnvironment(
        f"prove it: {', '.join(words)}",
        "not proved since the last change" if was_proved else "nothing is trusted before it was tried",
        "nothing but a mark and a log in the folder's .envcheck",
        "not needed",
    )


def apply(step: VerifyEnvironment, work: Work) -> str:
    """Of a lock's very versions, where there is one; what a good proof saw is written down."""
    if lock := work.terms.lock:
        there, image = dict(work.target.environment().packages), proof_record.find_image(work)
        commits = {each.directory: each.commit for each in lock_notes.commits(work.recipe, work.target)}
        for difference in lockfile_use.differences(lock, packages=there, image=image, commits=commits):
            raise StepError(difference, lockfile_use.NEXT)
    told = verify_environment.all_of(work.recipe, work.target, work.say)
    proof_record.keep_proof(work)
    return told


def verify(step: VerifyEnvironment, work: Work) -> str | None:
    """Nothing more: it is its own proof, and fails where something is not right."""
    return None


def undo(entry: Entry, folder: Path) -> str:
    """Nothing: it changed nothing but our own notes, which go last."""
    return ""


def script(step: VerifyEnvironment, at: ScriptTarget) -> Iterator[str]:
    """The recipe's own commands; beyond them envcheck proves that every card computes and that they add up rightly."""
    recipe = at.recipe
    yield from comment("envcheck provision proves more: that every card computes, and that all add up rightly.")
    if recipe.packages:
        names = shlex.join(package.name.partition("[")[0] for package in recipe.packages)
        yield f"{at.before}{at.python} -c {shlex.quote(_TELL)} {names}"
    unset = " ".join(f"-u {shlex.quote(name)}" for name in recipe.unset)
    for command in recipe.verify:
        argv = " ".join(fill_word(part, {"python": at.python}) for part in command)
        yield f"{at.before}{f'env {unset} ' if unset else ''}{argv}"
