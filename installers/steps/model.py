"""What a plan of provisioning is, and the steps that an environment and a container have in common."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name

from envcheck.core.secrets import redact
from installers.plan.package_sizes import SIZES_MIB, SMALL_MIB
from installers.plan.requirement import Obstacle
from installers.recipes.by_hand import ByHand
from installers.recipes.recipe import Build, Checkout, Library, Package, Recipe
from installers.state.environment import Environment, fits
from installers.verify.verify_cards import proofs

if TYPE_CHECKING:
    from installers.bundle.weights_plan import WeightsState
    from installers.containers.spec_from_recipe import ContainerPlan
    from installers.images.manifest import ResolvedImage
    from installers.locks.lockfile import Wheel

SPARE_MIB = 50


@dataclass(frozen=True)
class Step:
    """One deed.  `name` says which (installers.steps.perform does it); the rest is for people.

    `root` is why root alone can do it, "" where anybody can (who may use the engine's socket is no root).  `moves` is
    the image from which the pulled one takes its tag.
    """

    name: str
    title: str
    why: str
    changes: str
    undo: str
    size_mib: int = 0
    packages: tuple[Package, ...] = ()
    library: Library | None = None
    again: bool = False  # install even what seems to be there: a cut-off run may have left half of it
    image: ResolvedImage | None = None
    drawn: ContainerPlan | None = None
    recreate: bool = False
    checkout: Checkout | None = None
    build: Build | None = None
    weights: WeightsState | None = None
    moves: str = ""
    root: str = ""


def root(step: Step) -> str:
    """For people."""
    return f"needed, {step.root}" if step.root else "no"


@dataclass(frozen=True)
class Where:
    """Words for the place that packages go to: "the container NAME", or a folder; and how its Python is called."""

    place: str
    python: str


@dataclass(frozen=True)
class Plan:
    """`steps` are done here; `satisfied` is so already; `by_hand` a person must see to; each of `obstacles` stops all.

    `left_out` is what nobody asked for, `mind` what stops nothing and should be known.
    """

    recipe: str
    folder: Path
    steps: tuple[Step, ...]
    satisfied: tuple[str, ...] = ()
    by_hand: tuple[ByHand, ...] = ()
    obstacles: tuple[Obstacle, ...] = ()
    boxed: str = ""  # the container's name, where the recipe lives in one
    left_out: tuple[str, ...] = ()
    mind: tuple[str, ...] = ()

    @property
    def obstacle(self) -> Obstacle | None:
        """The first, whose exit code counts."""
        return next(iter(self.obstacles), None)

    @property
    def size_mib(self) -> int:
        return sum(step.size_mib for step in self.steps)


def lacking(group: tuple[Package, ...], there: Mapping[str, str], locked: Sequence[Wheel]) -> tuple[Package, ...]:
    """What of the group is not there as wanted; of a lock also what its packages need."""
    names = {canonicalize_name(p.name.partition("[")[0]) for p in group}
    needed = [Package(w.name, f"=={w.version}", w.index) for w in locked if w.index == group[0].index]
    wanted = (*group, *(p for p in needed if canonicalize_name(p.name) not in names))
    return tuple(p for p in wanted if not fits(p, there))


def install(
    group: tuple[Package, ...],
    there: Mapping[str, str],
    where: Where,
    again: bool,
    known: bool = True,
    locked: Sequence[Wheel] = (),
    source: str = "",
) -> Step:
    """`known`: somebody looked what is there; else all of the group counts as missing.  `source` is a bundle's name."""
    missing = group if again or not known else lacking(group, there, locked)
    index = source or group[0].index
    why = "; ".join(_why(p, there) for p in missing) if known else "what is there is seen when the container runs"
    return Step(
        "packages",
        f"install {', '.join(p.name + p.specifier for p in missing)}" + (f" from {redact(index)}" if index else ""),
        "an earlier run may have left half of it" if again else why,
        f"adds packages to {where.place}",
        f"{where.python} -m pip uninstall {' '.join(p.name for p in missing)}",
        sum(SIZES_MIB.get(p.name, SMALL_MIB) for p in missing),
        group,
        again=again,
    )


def _why(package: Package, there: Mapping[str, str]) -> str:
    version = there.get(canonicalize_name(package.name))
    return f"{package.name} is not there" if version is None else f"{package.name} there is {version}"


def proof(recipe: Recipe, before: bool) -> Step:
    """`before`: it was proved once."""
    words = ["import the packages", *(words for words, _ in proofs(recipe))]
    count = len(recipe.verify)
    words += [f"{count} command{'s' if count > 1 else ''} of the recipe's own"] if count else []
    return Step(
        "proof",
        f"prove it: {', '.join(words)}",
        "not proved since the last change" if before else "nothing is trusted before it was tried",
        "nothing but a mark and a log in the folder's .envcheck",
        "not needed",
    )


def there_already(recipe: Recipe, env: Environment) -> Iterator[str]:
    for package in recipe.packages:
        if fits(package, env.packages):
            yield f"{package.name} {env.packages[canonicalize_name(package.name.partition('[')[0])]}"
