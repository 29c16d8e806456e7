"""Clone a repository at the recipe's commit; recorded before it starts, and undone only without local changes."""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from envcheck.core.messages import Message
from installers.bundle import offline
from installers.containers import lifecycle
from installers.plan.requirement import UnmetRequirement
from installers.plan.step import Step
from installers.recipes.recipe import Checkout
from installers.software import checkouts, sources
from installers.software.checkouts import CloneState, GitRunner
from installers.state import journal
from installers.state.journal import Entry
from installers.steps import checkout_undo
from installers.steps.shell_script import ScriptTarget
from installers.steps.target_state import DesiredState, TargetState, locate_command
from installers.steps.work import StepContext

KNOWN = 200  # maximum number of recorded files that a build creates in a clone


@dataclass(frozen=True, kw_only=True)
class CloneCheckout(Step):
    """Creates the clone, checks out its commit, installs it in editable mode; only what is missing."""

    name: ClassVar[str] = "clone"
    base_s: ClassVar[int] = 30

    checkout: Checkout

    @property
    def outside_folder(self) -> str:
        return self.checkout.directory


def plan(desired: DesiredState, current: TargetState, planned: Sequence[Step]) -> Iterator[CloneCheckout]:
    for checkout in desired.recipe.checkouts:
        need = checkouts.plan_clone(checkout, current.sources.clones.get(checkout.directory, CloneState()))
        if isinstance(need, UnmetRequirement):
            title, why, changes, undo = need.step_words
            yield CloneCheckout(title, why, changes, locate_command(undo, current), need.size_mib, checkout=checkout)


def apply(step: CloneCheckout, work: StepContext) -> Message:
    with (
        offline.lend_clone(work.effective_supply, work.target, step.checkout) as source,
        offline.lend_tools(work.effective_supply, work.target) as tools,
    ):
        _note_begin(work, step.checkout)
        terms = checkouts.CloneOptions(
            note=work.note_wheels, locked=work.effective_supply.lock is not None, source=source, tools=tools
        )
        result, commit = sources.perform_clone(work.recipe, work.target, step.checkout, work.report_text, terms)
    for whole in work.effective_supply.recipe.checkouts if work.effective_supply.lock else ():
        if whole.directory == step.checkout.directory:
            checkouts.record_ref(work.target, whole, commit.commit)
    if _find_entry(work, step.checkout.directory):
        journal.write_entry(
            work.folder,
            step.name,
            "made",
            deed=f"clone {step.checkout.directory}",
            commit=commit.commit,
        )
    return result


def _note_begin(work: StepContext, checkout: Checkout) -> None:
    """Record the clone if it does not exist yet; an existing one belongs to the user."""
    clone = checkouts.inspect_clone(work.target, checkout)
    if clone.is_absent or clone.making:
        boxed = work.recipe.container.name if work.client and work.recipe.container else ""
        whole = posixpath.join(work.target.own_folder, checkout.directory)
        host = _find_host_path(work, whole, boxed) if boxed else whole
        more = {"host": host, "container": boxed, "commit": ""}
        journal.write_entry(work.folder, CloneCheckout.name, "made", deed=f"clone {checkout.directory}", **more)


def _find_host_path(work: StepContext, path: str, name: str) -> str:
    return checkout_undo.find_host_path(
        path, (lifecycle.inspect_container(work.engine_client.api, name) or {}).get("Mounts") or ()
    )


def _find_entry(work: StepContext, directory: str) -> Entry | None:
    return next((entry for entry in journal.list_made(work.folder) if entry.get("deed") == f"clone {directory}"), None)


def list_untracked(work: StepContext, directory: str) -> frozenset[str]:
    """Return the untracked and ignored files of a clone."""
    done = GitRunner(work.target, directory).run_git("status", "--porcelain", "--ignored", "--ignore-submodules=all")
    return frozenset(line[3:] for line in done.out.splitlines() if line.startswith(("?? ", "!! ")))


def note_built(work: StepContext, directory: str, before: frozenset[str], step: str) -> None:
    """Record the files that a build created in a clone of envcheck; `before` are those that existed before it."""
    entry = _find_entry(work, directory)
    if new := sorted(list_untracked(work, directory) - before)[:KNOWN] if entry else []:
        known = entry.get("built") if entry else None
        all_of_it = [*(known if isinstance(known, list) else ()), *new]
        journal.write_entry(work.folder, step, "made", deed=f"clone {directory}", built=all_of_it)


def verify(step: CloneCheckout, work: StepContext) -> Message | None:
    """Return None: `apply` already checks the commit and the editable installation."""
    return None


def undo(entry: Entry, folder: Path) -> Message:
    """Remove the clone, unless it has local changes."""
    return checkout_undo.undo_clone(folder, entry, [other.get("deed") for other in journal.list_made(folder)])


def script(step: CloneCheckout, at: ScriptTarget) -> Iterator[str]:
    folder, url = shlex.quote(step.checkout.directory), shlex.quote(checkouts.strip_credentials(step.checkout.url))
    yield f"{at.command_prefix}test -e {folder}/.git || {at.command_prefix}git clone -- {url} {folder}"
    yield f"{at.command_prefix}git -C {folder} checkout {shlex.quote(step.checkout.ref)}"
    if step.checkout.editable:
        yield at.pip_command(f"{at.limits_option}--editable {folder}")
