"""Model weights in a plan: where the recipe expects them, whether they are complete, whether there is space.

Nothing of this size is downloaded without a request: without --fetch-weights or --weights the plan only mentions it.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from envcheck.core.errors import UsageError
from envcheck.core.messages import Message, _, join, ngettext, verbatim
from envcheck.core.units import format_gib
from installers.bundle import weights, weights_fetch
from installers.bundle.sources import Supply
from installers.bundle.weights import CheckedWeights
from installers.bundle.weights_fetch import HubDownload
from installers.plan import host_facts
from installers.plan.requirement import Obstacle
from installers.recipes.container_spec import resolve_source
from installers.recipes.recipe import Mount, Recipe

SHOWN = 5  # flaws listed in one message


@dataclass(frozen=True)
class WeightsState:
    """State of the weights; `path` is where the recipe expects them on the target, "" for the hub's own cache.

    `host` is the same on this host, None if it is on no mount; `within` is the mount, which links must not leave.
    `checked` is the result for the folder, which the target sees as `shown`; `own`: the folder is the user's.
    """

    fetches: tuple[HubDownload, ...] = ()
    path: str = ""
    host: Path | None = None
    within: Path | None = None
    checked: CheckedWeights | None = None
    shown: str = ""
    own: bool = False
    there_bytes: int = 0
    free_bytes: int | None = None
    boxed: bool = False


def inspect_weights(recipe: Recipe, supply: Supply, start: Path, boxed: bool) -> WeightsState:
    """Return the state of the weights; changes nothing.  `start` is the folder that relative paths refer to."""
    fetches = weights_fetch.list_downloads(recipe)
    if supply.fetch and not fetches:
        raise UsageError(
            _("recipe {name} lists no weights to download", name=recipe.name),
            _("specify a local folder: --weights DIR"),
        )
    path = fetches[0].folder if fetches else ""
    mounts = _resolve_mounts(recipe, start) if boxed else ()
    if not boxed and path:
        path = str(start / path)
        fetches = tuple(replace(each, folder=path) for each in fetches)
    host = (_host_path(path, mounts, start) if boxed else Path(path)) if path else None
    within = _find_mount(host, mounts) if boxed else host
    seen = WeightsState(fetches, path, host, within, boxed=boxed)
    if supply.weights:
        own = supply.weights
        return replace(
            seen,
            own=True,
            checked=weights.check_weights(own, within=_find_mount(own, mounts)),
            shown=_container_path(own, mounts),
        )
    if not supply.fetch or host is None:
        return seen
    free = host_facts.read_facts(host).free_bytes
    return replace(
        seen,
        checked=weights.check_weights(host, within=within),
        shown=path,
        there_bytes=weights_fetch.present_bytes(host),
        free_bytes=free,
    )


def _resolve_mounts(recipe: Recipe, start: Path) -> tuple[Mount, ...]:
    box = recipe.container
    return tuple(Mount(resolve_source(m.source, str(start)), m.target) for m in box.mounts) if box else ()


def _host_path(path: str, mounts: tuple[Mount, ...], start: Path) -> Path | None:
    found = weights_fetch.find_host_path(path, mounts, start)
    return Path(posixpath.normpath(found)) if found else None


def _find_mount(folder: Path | None, mounts: tuple[Mount, ...]) -> Path | None:
    """Return the mount that contains a folder of this host."""
    real = folder.resolve() if folder else None
    roots = [Path(m.source).resolve() for m in mounts]
    inside = [root for root in roots if real and real.is_relative_to(root)]
    return max(inside, key=lambda root: len(root.parts)) if inside else folder


def _container_path(folder: Path, mounts: tuple[Mount, ...]) -> str:
    """Return the folder as the container sees it, "" if it does not; without a container the folder itself."""
    if not mounts:
        return str(folder)
    root = _find_mount(folder, mounts)
    mount = next((m for m in mounts if Path(m.source).resolve() == root), None)
    if mount is None or root is None:
        return ""
    return posixpath.normpath(posixpath.join(mount.target, folder.resolve().relative_to(root).as_posix()))


def describe_satisfied(state: WeightsState, supply: Supply) -> Iterator[Message]:
    """Yield the plan's line for weights that are in place."""
    found = state.checked
    if found is None or found.is_whole is False:
        return
    if found.is_whole is None:
        yield _(
            "weights in {folder}: cannot verify that they are complete: {flaw}",
            folder=found.folder,
            flaw=found.flaws[0],
        )
        return
    place = (
        _("{folder} ({inside} in the container)", folder=found.folder, inside=state.shown)
        if state.boxed
        else verbatim(str(found.folder))
    )
    yield ngettext(
        "weights in {folder}: complete, {count} file, {size}",
        "weights in {folder}: complete, {count} files, {size}",
        found.shards,
        folder=place,
        size=format_gib(found.size_bytes),
    )


def find_obstacles(recipe: Recipe, state: WeightsState, supply: Supply) -> Iterator[Obstacle]:
    """Yield what prevents using or downloading the weights."""
    if state.own:
        yield from _check_own_folder(state)
    if not supply.fetch or (state.checked and state.checked.is_whole):
        return
    if state.boxed and state.path and state.host is None:
        yield Obstacle(
            _("{path} is not on a mount: the weights would be lost with the container", path=state.path),
            _("add a mount that contains {path} to container.mounts in the recipe", path=state.path),
        )
    assert recipe.weights
    if lack := weights_fetch.explain_missing_space(recipe.weights.size_gib, state.there_bytes, state.free_bytes):
        yield Obstacle(
            _("weights at {host}: {lack}", host=state.host, lack=lack),
            _("free disk space, or specify a local folder: --weights DIR"),
        )


def _check_own_folder(state: WeightsState) -> Iterator[Obstacle]:
    assert state.checked
    sure = [flaw for flaw in state.checked.flaws if flaw.sure]
    if sure:
        flaws = join("; ", (_("{flaw} ({next_step})", flaw=flaw, next_step=flaw.next_step) for flaw in sure[:SHOWN]))
        folder, more = state.checked.folder, len(sure) - SHOWN
        why = (
            _("the weights in {folder} are incomplete: {flaws}; and {more} more", folder=folder, flaws=flaws, more=more)
            if more > 0
            else _("the weights in {folder} are incomplete: {flaws}", folder=folder, flaws=flaws)
        )
        yield Obstacle(why, _("fix this, then run the command again"))
    elif not state.shown:
        yield _explain_misplaced(state, _("{folder} is not on a mount of the container", folder=state.checked.folder))
    elif state.path and posixpath.normpath(state.path) != state.shown:
        yield _explain_misplaced(
            state,
            _(
                "the weights are in {folder}; the recipe expects them at {path}",
                folder=state.checked.folder,
                path=state.path,
            ),
        )


def _explain_misplaced(state: WeightsState, why: Message) -> Obstacle:
    assert state.checked
    folder = state.checked.folder
    return Obstacle(
        why,
        verbatim(f"mv {folder} {state.host}") if state.host else _("move the folder below one of the recipe's mounts"),
    )


def describe_skipped(recipe: Recipe, state: WeightsState, supply: Supply) -> Iterator[Message]:
    """Yield the plan's line for weights that seem to be missing and were not requested."""
    if supply.fetch or supply.weights or not state.fetches or (state.host and (state.host / "config.json").is_file()):
        return
    size = recipe.weights.size_gib if recipe.weights else None
    what = verbatim(state.fetches[0].repository)
    if size and state.path:
        what = _("{repository} ({size_gib:g} GiB) at {path}", repository=what, size_gib=size, path=state.path)
    elif size:
        what = _("{repository} ({size_gib:g} GiB)", repository=what, size_gib=size)
    elif state.path:
        what = _("{repository} at {path}", repository=what, path=state.path)
    yield _(
        "weights of {what}: download them with `envcheck provision --recipe {recipe} --fetch-weights`, "
        "or use your own with --weights DIR",
        what=what,
        recipe=recipe.name,
    )
