"""What a recipe has beside packages: clones of projects, and what is built from them, in the recipe's order."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from envcheck.core.errors import EnvcheckError
from installers.locks.lockfile import Commit
from installers.plan.requirement import Need, Obstacle, Satisfied
from installers.recipes.recipe import Build, Checkout, Recipe
from installers.software import builds, checkouts
from installers.software.builds import BuildSite, BuildState, LockedFiles
from installers.software.checkouts import Clone, CloneOptions
from installers.software.packages import Note
from installers.targets.target import Target


@dataclass(frozen=True)
class Sources:
    """What stands there, by directory and by the build's name; empty where nobody could look yet.

    `versions` are the clones' commits and the sums of what was built, by path: what a proof saw of them is compared.
    """

    clones: Mapping[str, Clone] = field(default_factory=dict)
    builds: Mapping[str, BuildState] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)


def look(recipe: Recipe, ground: BuildSite, role: str) -> Sources:
    """Changes nothing."""
    clones = {each.directory: checkouts.there(ground.target, each) for each in recipe.checkouts}
    commits = {directory: clone.commit for directory, clone in clones.items() if clone.commit}
    made = sums(ground.target, builds.of_role(recipe, role))
    return Sources(clones, states(recipe, ground, role, commits), {**commits, **made})


def sums(target: Target, wanted: Iterable[Build]) -> dict[str, str]:
    """SHA-256 by path of the files that these builds left, as it was noted then."""
    return {
        posixpath.join(build.checkout, made.path): made.sha256
        for build in wanted
        for made in builds.results(target, [build])
    }


def states(recipe: Recipe, ground: BuildSite, role: str, commits: Mapping[str, str]) -> dict[str, BuildState]:
    """Each build, in order: its key holds those of the builds that it comes after."""
    found: dict[str, BuildState] = {}
    for build in builds.of_role(recipe, role):
        commit = builds.commit_of(build, recipe.checkouts, commits)
        found[build.name] = builds.there(ground, build, commit, [found[name].key for name in build.after])
    return found


def needs(recipe: Recipe, seen: Sources, role: str) -> Iterator[tuple[Need | Satisfied, Checkout | None, Build | None]]:
    for checkout in recipe.checkouts:
        yield checkouts.need(checkout, seen.clones.get(checkout.directory, Clone())), checkout, None
    for build in builds.of_role(recipe, role):
        yield builds.need(build, seen.builds.get(build.name, BuildState(""))), None, build


def so(recipe: Recipe, seen: Sources, role: str) -> Iterator[str]:
    yield from (need.words for need, _, _ in needs(recipe, seen, role) if isinstance(need, Satisfied))


def obstacles(recipe: Recipe, seen: Sources, role: str) -> Iterator[Obstacle]:
    for need, _, _ in needs(recipe, seen, role):
        if isinstance(need, Need) and need.obstacle:
            yield Obstacle(need.obstacle, need.remedy)


def clone(
    recipe: Recipe, target: Target, checkout: Checkout, say: Callable[[str], None], terms: CloneOptions
) -> tuple[str, Commit]:
    """The clone at its commit; what was done in words, and what the lock says of it."""
    commit = checkouts.perform(target, checkout, say, replace(terms, limits=pins(recipe)))
    return f"{checkout.directory} is at {commit.commit[:12]}", commit


def build(
    recipe: Recipe, ground: BuildSite, wanted: Build, role: str, say: Callable[[str], None], note: Note
) -> builds.BuildResult:
    commits = {each.directory: checkouts.there(ground.target, each).commit for each in recipe.checkouts}
    known = states(recipe, ground, role, commits)
    commit = builds.commit_of(wanted, recipe.checkouts, commits)
    before = [known[name].key for name in wanted.after]
    return builds.perform(ground, wanted, commit, say, before=before, limits=pins(recipe), note=note)


def pins(recipe: Recipe) -> Sequence[str]:
    """Requirement lines that nothing installed later may move."""
    return [f"{p.name.partition('[')[0]}{p.specifier}" for p in recipe.packages if p.specifier]


def unknown(recipe: Recipe, ground: BuildSite, role: str) -> Sources:
    """As `look`; where looking fails (no git there yet, say) nothing is known, and the step says why when it fails."""
    try:
        return look(recipe, ground, role)
    except EnvcheckError:
        return unseen(recipe, ground.supply, role)


def unseen(recipe: Recipe, supply: LockedFiles | None, role: str) -> Sources:
    """Where nobody can look yet; of a lock's builds it is known whether they are to be had."""
    locked = supply if supply and supply.lock else None
    known = builds.of_role(recipe, role) if locked else ()
    return Sources(builds={each.name: builds.unseen(each, locked) for each in known if locked})
