"""A recipe's sources besides packages: clones and the builds from them, in the recipe's order."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from envcheck.core.errors import EnvcheckError
from envcheck.core.messages import Message, _
from installers.locks.lockfile import LockedCommit
from installers.plan.requirement import Obstacle, SatisfiedRequirement, UnmetRequirement
from installers.recipes.recipe import Checkout, Recipe, RecipeBuild
from installers.software import builds, checkouts
from installers.software.builds import BuildSite, BuildState, LockedFiles
from installers.software.checkouts import CloneOptions, CloneState
from installers.software.pip_runner import Note
from installers.targets.target import Target


@dataclass(frozen=True)
class SourcesState:
    """State of the clones by directory and of the builds by name; empty if it could not be inspected.

    `versions` are the clones' commits and the built files' checksums by path, compared with those of the verification.
    """

    clones: Mapping[str, CloneState] = field(default_factory=dict)
    builds: Mapping[str, BuildState] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)


def inspect_sources(recipe: Recipe, ground: BuildSite, role: str) -> SourcesState:
    """Return the state of all clones and builds; changes nothing."""
    clones = {each.directory: checkouts.inspect_clone(ground.target, each) for each in recipe.checkouts}
    commits = {directory: clone.commit for directory, clone in clones.items() if clone.commit}
    made = list_sums(ground.target, builds.list_builds(recipe, role))
    return SourcesState(clones, inspect_builds(recipe, ground, role, commits), {**commits, **made})


def list_sums(target: Target, wanted: Iterable[RecipeBuild]) -> dict[str, str]:
    """Return the recorded SHA-256 by path of the files that these builds produced."""
    return {
        posixpath.join(build.checkout, made.path): made.sha256
        for build in wanted
        for made in builds.list_results(target, [build])
    }


def inspect_builds(recipe: Recipe, ground: BuildSite, role: str, commits: Mapping[str, str]) -> dict[str, BuildState]:
    """Return the state of each build, in order: its key includes those of the builds in its `after`."""
    found: dict[str, BuildState] = {}
    for build in builds.list_builds(recipe, role):
        commit = builds.choose_commit(build, recipe.checkouts, commits)
        found[build.name] = builds.inspect_build(ground, build, commit, [found[name].key for name in build.after])
    return found


def plan_sources(
    recipe: Recipe, state: SourcesState, role: str
) -> Iterator[tuple[UnmetRequirement | SatisfiedRequirement, Checkout | None, RecipeBuild | None]]:
    """Yield the plan step of each clone and build, with the clone or build it is for."""
    for checkout in recipe.checkouts:
        yield checkouts.plan_clone(checkout, state.clones.get(checkout.directory, CloneState())), checkout, None
    for build in builds.list_builds(recipe, role):
        yield builds.plan_build(build, state.builds.get(build.name, BuildState(""))), None, build


def describe_satisfied(recipe: Recipe, state: SourcesState, role: str) -> Iterator[Message]:
    """Yield what is already in place."""
    yield from (
        need.words for need, *_unused in plan_sources(recipe, state, role) if isinstance(need, SatisfiedRequirement)
    )


def find_obstacles(recipe: Recipe, state: SourcesState, role: str) -> Iterator[Obstacle]:
    """Yield what blocks a clone or a build."""
    for need, *_unused in plan_sources(recipe, state, role):
        if isinstance(need, UnmetRequirement) and need.obstacle:
            yield Obstacle(need.obstacle, need.remedy)


def perform_clone(
    recipe: Recipe, target: Target, checkout: Checkout, on_line: Callable[[str], None], terms: CloneOptions
) -> tuple[Message, LockedCommit]:
    """Check out the clone; return what was done, as text, and the lock entry."""
    commit = checkouts.update_clone(target, checkout, on_line, replace(terms, limits=pinned_requirements(recipe)))
    return _("{directory} is at {commit}", directory=checkout.directory, commit=commit.commit[:12]), commit


def perform_build(
    recipe: Recipe, ground: BuildSite, wanted: RecipeBuild, role: str, on_line: Callable[[str], None], note: Note
) -> builds.BuildResult:
    """Build from the clones as checked out, and install the result."""
    commits = {each.directory: checkouts.inspect_clone(ground.target, each).commit for each in recipe.checkouts}
    known = inspect_builds(recipe, ground, role, commits)
    commit = builds.choose_commit(wanted, recipe.checkouts, commits)
    before = [known[name].key for name in wanted.after]
    return builds.run_build(
        ground, wanted, commit, on_line, before=before, limits=pinned_requirements(recipe), note=note
    )


def pinned_requirements(recipe: Recipe) -> Sequence[str]:
    """Return the requirement lines that later installations must not change."""
    return [f"{p.name.partition('[')[0]}{p.specifier}" for p in recipe.packages if p.specifier]


def inspect_if_possible(recipe: Recipe, ground: BuildSite, role: str) -> SourcesState:
    """Return the state as `inspect_sources` does, or what the lock gives if inspection fails (git missing, for
    example): the step itself then reports the reason.
    """
    try:
        return inspect_sources(recipe, ground, role)
    except EnvcheckError:
        return sources_from_lock(recipe, ground.supply, role)


def sources_from_lock(recipe: Recipe, supply: LockedFiles | None, role: str) -> SourcesState:
    """Return the state when the target cannot be inspected; a lock determines which builds are available."""
    locked = supply if supply and supply.lock else None
    known = builds.list_builds(recipe, role) if locked else ()
    return SourcesState(builds={each.name: builds.state_from_lock(each, locked) for each in known if locked})
