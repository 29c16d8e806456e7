"""A clone of a project at the recipe's commit, noted before it is begun, and taken back while nobody worked in it."""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from installers.bundle import from_bundle
from installers.containers import container
from installers.plan.requirement import Need
from installers.plan.step import Step
from installers.recipes.recipe import Checkout
from installers.software import checkouts, sources
from installers.software.checkouts import Clone, Git
from installers.state import journal
from installers.state.journal import Entry
from installers.steps import checkout_undo
from installers.steps.shell_script import ScriptTarget
from installers.steps.target_state import DesiredState, TargetState
from installers.steps.work import Work

KNOWN = 200  # entries that a build leaves beside what was cloned


@dataclass(frozen=True, kw_only=True)
class CloneCheckout(Step):
    """Made, moved to its commit, or installed editable: what is missing is seen when it is done."""

    name: ClassVar[str] = "clone"
    base_s: ClassVar[int] = 30

    checkout: Checkout

    @property
    def outside(self) -> str:
        return self.checkout.directory


def plan(desired: DesiredState, current: TargetState, planned: Sequence[Step]) -> Iterator[CloneCheckout]:
    for checkout in desired.recipe.checkouts:
        need = checkouts.need(checkout, current.sources.clones.get(checkout.directory, Clone()))
        if isinstance(need, Need):
            yield CloneCheckout(*need.step_words, need.size_mib, checkout=checkout)


def apply(step: CloneCheckout, work: Work) -> str:
    with (
        from_bundle.clone(work.terms, work.target, step.checkout) as source,
        from_bundle.tools(work.terms, work.target) as tools,
    ):
        _note_begin(work, step.checkout)
        terms = checkouts.CloneOptions(
            note=work.note_wheels, locked=work.terms.lock is not None, source=source, tools=tools
        )
        told, commit = sources.clone(work.recipe, work.target, step.checkout, work.say, terms)
    for whole in work.terms.recipe.checkouts if work.terms.lock else ():
        if whole.directory == step.checkout.directory:
            checkouts.name(work.target, whole, commit.commit)
    if _entry(work, step.checkout.directory):
        journal.write(work.folder, step.name, "made", deed=f"clone {step.checkout.directory}", commit=commit.commit)
    return told


def _note_begin(work: Work, checkout: Checkout) -> None:
    """Noted where there is none yet; one that was there before us is the user's."""
    clone = checkouts.there(work.target, checkout)
    if clone.absent or clone.making:
        boxed = work.recipe.container.name if work.client and work.recipe.container else ""
        whole = posixpath.join(work.target.own, checkout.directory)
        host = _mounted(work, whole, boxed) if boxed else whole
        more = {"host": host, "boxed": boxed, "commit": ""}
        journal.write(work.folder, CloneCheckout.name, "made", deed=f"clone {checkout.directory}", **more)


def _mounted(work: Work, path: str, name: str) -> str:
    return checkout_undo.on_host(path, (container.look(work.engine.api, name) or {}).get("Mounts") or ())


def _entry(work: Work, directory: str) -> Entry | None:
    return next((entry for entry in journal.made(work.folder) if entry.get("deed") == f"clone {directory}"), None)


def list_untracked(work: Work, directory: str) -> frozenset[str]:
    """What lies in a clone beside its files."""
    told = Git(work.target, directory).run("status", "--porcelain", "--ignored", "--ignore-submodules=all")
    return frozenset(line[3:] for line in told.out.splitlines() if line.startswith(("?? ", "!! ")))


def note_built(work: Work, directory: str, before: frozenset[str], step: str) -> None:
    """What a build of ours put into a clone of ours."""
    entry = _entry(work, directory)
    if new := sorted(list_untracked(work, directory) - before)[:KNOWN] if entry else []:
        known = entry.get("built") if entry else None
        all_of_it = [*(known if isinstance(known, list) else ()), *new]
        journal.write(work.folder, step, "made", deed=f"clone {directory}", built=all_of_it)


def verify(step: CloneCheckout, work: Work) -> str | None:
    """Nothing more: git was asked for its commit, and pip whether it is installed, before it counted as done."""
    return None


def undo(entry: Entry, folder: Path) -> str:
    """Removes the clone as we left it; one in which somebody has worked is kept."""
    return checkout_undo.undo(folder, entry, [other.get("deed") for other in journal.made(folder)])


def script(step: CloneCheckout, at: ScriptTarget) -> Iterator[str]:
    folder, url = shlex.quote(step.checkout.directory), shlex.quote(checkouts.public(step.checkout.url))
    yield f"{at.before}test -e {folder}/.git || {at.before}git clone -- {url} {folder}"
    yield f"{at.before}git -C {folder} checkout {shlex.quote(step.checkout.ref)}"
    if step.checkout.editable:
        yield at.pip(f"{at.limits}--editable {folder}")
