"""A model's weights in a plan: where the recipe looks for them, whether they are whole, whether there is room.

Nothing of the size of weights is fetched unasked: without --fetch-weights and --weights the plan only says so.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from envcheck.core.errors import UsageError
from envcheck.core.units import gib
from installers.bundle import weights, weights_fetch
from installers.bundle.sources import Supply
from installers.bundle.weights import Checked
from installers.bundle.weights_fetch import Fetch
from installers.plan import host_facts
from installers.plan.requirement import Obstacle
from installers.recipes.container_spec import placed
from installers.recipes.recipe import Mount, Recipe

SHOWN = 5  # flaws in a sentence


@dataclass(frozen=True)
class WeightsState:
    """`path` is where the recipe looks, as its command sees it, "" for the hub's own cache; `host` the same on this
    host, None where it is in no mount.  `within` is the mount, out of which nothing may lead.

    `checked` is the folder that was asked about, which the recipe's side sees as `shown`; `own`: it is the user's.
    """

    fetches: tuple[Fetch, ...] = ()
    path: str = ""
    host: Path | None = None
    within: Path | None = None
    checked: Checked | None = None
    shown: str = ""
    own: bool = False
    there_bytes: int = 0
    free_bytes: int | None = None
    boxed: bool = False


def look(recipe: Recipe, supply: Supply, start: Path, boxed: bool) -> WeightsState:
    """Changes nothing.  `start` is the folder in which relative paths stand."""
    fetches = weights_fetch.fetches(recipe)
    if supply.fetch and not fetches:
        raise UsageError(f"{recipe.name} names no weights that could be fetched", "give your own: --weights DIR")
    path = fetches[0].folder if fetches else ""
    mounts = _mounts(recipe, start) if boxed else ()
    if not boxed and path:
        path = str(start / path)
        fetches = tuple(replace(each, folder=path) for each in fetches)
    host = (_on_host(path, mounts, start) if boxed else Path(path)) if path else None
    within = _within(host, mounts) if boxed else host
    seen = WeightsState(fetches, path, host, within, boxed=boxed)
    if supply.weights:
        own = supply.weights
        return replace(
            seen, own=True, checked=weights.check(own, within=_within(own, mounts)), shown=_shown(own, mounts)
        )
    if not supply.fetch or host is None:
        return seen
    free = host_facts.read(host).free_bytes
    return replace(
        seen,
        checked=weights.check(host, within=within),
        shown=path,
        there_bytes=weights_fetch.present_bytes(host),
        free_bytes=free,
    )


def _mounts(recipe: Recipe, start: Path) -> tuple[Mount, ...]:
    box = recipe.container
    return tuple(Mount(placed(m.source, str(start)), m.target) for m in box.mounts) if box else ()


def _on_host(path: str, mounts: tuple[Mount, ...], start: Path) -> Path | None:
    found = weights_fetch.on_host(path, mounts, start)
    return Path(posixpath.normpath(found)) if found else None


def _within(folder: Path | None, mounts: tuple[Mount, ...]) -> Path | None:
    """The mount in which a folder of this host stands."""
    real = folder.resolve() if folder else None
    roots = [Path(m.source).resolve() for m in mounts]
    inside = [root for root in roots if real and real.is_relative_to(root)]
    return max(inside, key=lambda root: len(root.parts)) if inside else folder


def _shown(folder: Path, mounts: tuple[Mount, ...]) -> str:
    """As the container sees it, "" where it does not; without a container the folder itself."""
    if not mounts:
        return str(folder)
    root = _within(folder, mounts)
    mount = next((m for m in mounts if Path(m.source).resolve() == root), None)
    if mount is None or root is None:
        return ""
    return posixpath.normpath(posixpath.join(mount.target, folder.resolve().relative_to(root).as_posix()))


def so(seen: WeightsState, supply: Supply) -> Iterator[str]:
    found = seen.checked
    if found is None or found.whole is False:
        return
    if found.whole is None:
        yield f"weights in {found.folder}: cannot be told whole, as {found.flaws[0]}"
        return
    where = f", {seen.shown} in the container" if seen.boxed else ""
    yield f"weights in {found.folder}{where}: whole, {found.shards} files, {gib(found.size_bytes)}"


def obstacles(recipe: Recipe, seen: WeightsState, supply: Supply) -> Iterator[Obstacle]:
    if seen.own:
        yield from _own(seen)
    if not supply.fetch or (seen.checked and seen.checked.whole):
        return
    if seen.boxed and seen.path and seen.host is None:
        yield Obstacle(f"{seen.path} is in no mount: the weights would go with the container", "add one to the recipe")
    assert recipe.weights
    if lack := weights_fetch.lacking_room(recipe.weights.size_gib, seen.there_bytes, seen.free_bytes):
        yield Obstacle(f"for the weights at {seen.host}: {lack}", "make room, or give a folder of yours: --weights DIR")


def _own(seen: WeightsState) -> Iterator[Obstacle]:
    assert seen.checked
    sure = [flaw for flaw in seen.checked.flaws if flaw.sure]
    if sure:
        told = "; ".join(f"{flaw} ({flaw.next_step})" for flaw in sure[:SHOWN])
        more = f"; and {len(sure) - SHOWN} more" if len(sure) > SHOWN else ""
        yield Obstacle(f"the weights in {seen.checked.folder} are not whole: {told}{more}", "see to it, then repeat")
    elif not seen.shown:
        yield _elsewhere(seen, "is in no mount of the container")
    elif seen.path and posixpath.normpath(seen.path) != seen.shown:
        yield _elsewhere(seen, f"is not where the recipe looks, at {seen.path}")


def _elsewhere(seen: WeightsState, why: str) -> Obstacle:
    assert seen.checked
    folder = seen.checked.folder
    return Obstacle(f"{folder} {why}", f"mv {folder} {seen.host}" if seen.host else "move it below one of its mounts")


def left_out(recipe: Recipe, seen: WeightsState, supply: Supply) -> Iterator[str]:
    """What nobody asked for, where it does not seem to be there."""
    if supply.fetch or supply.weights or not seen.fetches or (seen.host and (seen.host / "config.json").is_file()):
        return
    size = f" ({recipe.weights.size_gib:g} GiB)" if recipe.weights and recipe.weights.size_gib else ""
    where = f" at {seen.path}" if seen.path else ""
    yield f"the weights of {seen.fetches[0].repository}{size}{where}: --fetch-weights, or your own: --weights DIR"
