"""What there is before a recipe's container is made: the engine, the image, the container, and what its Python has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from envcheck.collect.machine import here as this_machine
from envcheck.core.errors import EnvcheckError, StepError, UsageError
from envcheck.core.facts import Engine as EngineFacts
from envcheck.core.facts import Facts
from envcheck.job.cards import count_cards, select_card_ids
from envcheck.job.container import derive_container
from envcheck.job.here import read_architecture
from installers.bundle import from_bundle
from installers.bundle.sources import Supply
from installers.containers import container, container_host
from installers.containers.compare import Action, ContainerStatus, Difference, standing
from installers.containers.container_options import Wish
from installers.containers.host_paths import ContainerPlan, plan_container
from installers.images import engine, image, pull_resume, reference, registry
from installers.images.engine import Engine
from installers.images.engine_problems import Problem
from installers.images.image import LocalImage
from installers.images.manifest import ResolvedImage
from installers.plan import host_facts
from installers.recipes.recipe import Image as RecipeImage
from installers.recipes.recipe import Recipe
from installers.software import sources
from installers.software.builds import BuildSite
from installers.state import state_file as mark
from installers.steps.container_state import ContainerState
from installers.targets.exec_target import ContainerTarget

if TYPE_CHECKING:
    import docker

AGAIN_S = 5.0  # for a registry's answer about an image that is here already


def observe_container(
    recipe: Recipe, folder: Path, wish: Wish, facts: Facts, role: str = "", supply: Supply | None = None
) -> ContainerState:
    """Changes nothing.  Without an engine the container is drawn all the same, so that a plan can show it.

    A container that was made with the document's own options keeps them until it is made anew.
    """
    remembered = not wish.recreate and mark.is_as_published(folder)
    wish = replace(wish, as_published=wish.as_published or remembered)
    seen = _look(recipe, folder, wish, facts, role, supply)
    folders = seen.drawn.folders
    known = host_facts.read(folder, (), folders)
    of_root, closed = (tuple(each for each in folders if each in told) for told in (known.of_root, known.closed))
    return replace(seen, of_root=of_root, closed=closed)


def _look(recipe: Recipe, folder: Path, wish: Wish, facts: Facts, role: str, supply: Supply | None) -> ContainerState:
    host = engine.look()
    ours = mark.load(folder)
    if host.problem:
        return ContainerState(host, ours, recipe.interpreter, _drawn(recipe, wish, facts, _named(recipe, facts)))
    supply = supply or Supply(recipe)
    client = engine.connect(host)
    try:
        return _with_engine(recipe, folder, wish, facts, client, host, role, supply)
    finally:
        client.close()


def _with_engine(
    recipe: Recipe,
    folder: Path,
    wish: Wish,
    facts: Facts,
    client: docker.DockerClient,
    host: Engine,
    role: str,
    supply: Supply,
) -> ContainerState:
    found, problem, name = None, None, _named(recipe, facts)
    there, moved, unasked = None, "", ""
    try:
        if supply.bundle:
            there, name = _of_bundle(client, supply, host)
        else:
            names = reference.candidates(_image(recipe), host.architecture, wish.registries)
            there = image.named_here(client, names, host)
            if there is None:
                found = registry.resolve(names, host, image.credentials(client))
                there = image.here(client, found)
            elif _to_be_made(recipe, wish, client):
                found, unasked = _asked_anew(names, there, host, client)
                there, moved = (None, there.image_id) if found else (there, "")
            name = _name(names[0], there, found)
    except EnvcheckError as err:
        problem = Problem("image", err.message, err.next_step)
    facts = replace(facts, engine=EngineFacts(host.version, host.runtimes, cdi=host.cdi))  # of the one that makes it
    drawn = _drawn(recipe, _from_where_it_was(recipe, wish, client), facts, name)
    stands = _standing(client, drawn, moved, wish) if there or moved else None
    target = ContainerTarget(client.api, drawn.spec.name, recipe.interpreter, folder)
    running = stands is not None and stands.action is Action.REUSE
    return ContainerState(
        engine=host,
        mark=mark.load(folder),
        interpreter=recipe.interpreter,
        drawn=drawn,
        found=found,
        here=there,
        image_problem=problem,
        moved=moved,
        unasked=unasked,
        room=None if there or problem else _room(found, host, supply, client),
        standing=stands,
        environment=target.environment() if running else None,
        sources=sources.unknown(recipe, BuildSite(target, supply=supply), role)
        if running and recipe.checkouts
        else sources.unseen(recipe, supply, role),
    )


def _to_be_made(recipe: Recipe, wish: Wish, client: docker.DockerClient) -> bool:
    """A container that is there keeps the image from which it was made, and nobody is asked."""
    assert recipe.container
    return wish.recreate or container.look(client.api, recipe.container.name) is None


def _standing(client: docker.DockerClient, drawn: ContainerPlan, moved: str, wish: Wish) -> ContainerStatus:
    """Against an image that is still to come a container cannot be compared field by field."""
    if not moved:
        return container.stands(client.api, drawn.spec, recreate=wish.recreate)
    now = standing(container.look(client.api, drawn.spec.name), drawn.spec, recreate=True)
    if now.action in (Action.CREATE, Action.REFUSE):
        return now
    return ContainerStatus(Action.RECREATE, (Difference("image", drawn.spec.image, moved),))


def _asked_anew(
    names: Sequence[reference.Reference], there: LocalImage, host: Engine, client: docker.DockerClient
) -> tuple[ResolvedImage | None, str]:
    """The other image to which the tag leads by now, None for the one that is here; and why that could not be asked.

    One try of a few seconds: whoever has the image can go on with it.  What came from no registry is in none.
    """
    own = next(each for each in names if str(each) in there.names)
    if own.digest or not there.digest:
        return None, ""
    try:
        found = registry.resolve([own], host, image.credentials(client), read_s=AGAIN_S, attempts=1)
    except StepError as err:
        return None, err.message
    same = there.image_id in (found.image_id, found.digest, found.list_digest)
    return None if same else found, ""


def _from_where_it_was(recipe: Recipe, wish: Wish, client: docker.DockerClient) -> Wish:
    """A container that is there keeps the folder in which it was started, wherever one stands now: else its mounts
    would differ, and making it anew would lose what was put into it."""
    there = container.look(client.api, recipe.container.name) if recipe.container and not wish.recreate else None
    mounted = {m.get("Destination"): str(m.get("Source") or "") for m in (there or {}).get("Mounts") or ()}
    for mount in recipe.container.mounts if recipe.container else ():
        source = mounted.get(mount.target, "")
        if not mount.source.startswith("/") and source:
            above = len(Path(mount.source).parts)
            return replace(wish, start=Path(source).parents[above - 1] if above else Path(source))
    return wish


def _of_bundle(client: docker.DockerClient, supply: Supply, host: Engine) -> tuple[LocalImage | None, str]:
    """By the digest that a registry gave it where the engine knows it, else by its id."""
    assert supply.bundle and supply.bundle.image
    if supply.bundle.image.architecture != host.architecture:
        why = f"{supply.name} was made for {supply.bundle.image.architecture}, the engine is {host.architecture}"
        raise UsageError(why, f"where there is a network: envcheck bundle --arch {host.architecture}")
    there = from_bundle.here(client, supply)
    if there is None:
        return None, supply.bundle.image.id
    pulled = [str(name) for name in there.get("RepoDigests") or ()]
    digest = supply.lock.image.digest if supply.lock and supply.lock.image else ""
    known = next((name for name in pulled if digest and name.endswith(f"@{digest}")), "")
    return LocalImage(str(there["Id"]), digest if known else "", host.architecture), known or str(there["Id"])


def _room(found: ResolvedImage | None, host: Engine, supply: Supply, client: docker.DockerClient) -> Problem | None:
    if supply.bundle:
        return from_bundle.room(supply, host)
    return image.room(found, host, pull_resume.kept(client, found)) if found else None


def _drawn(recipe: Recipe, wish: Wish, facts: Facts, name: str) -> ContainerPlan:
    architecture = read_architecture(facts)
    ids = select_card_ids(recipe, facts, recipe.device, count_cards(recipe, recipe.device))
    found = derive_container(
        recipe, facts, recipe.device, ids, architecture, str(wish.start), as_published=wish.as_published
    )
    assert found
    return plan_container(recipe, found, name, container_host.observe(found, this_machine()))


def _name(first: reference.Reference, there: LocalImage | None, found: ResolvedImage | None) -> str:
    """By digest, the same before the pull and after it; an image that came from no registry, or is here under another
    name alone, by its id."""
    if found:
        return str(found.pinned) if there is None or str(found.pinned) in there.names else there.image_id
    assert there
    return str(reference.pinned(first, there.digest)) if there.digest else there.image_id


def _named(recipe: Recipe, facts: Facts) -> str:
    references = _image(recipe).references
    return references.get(read_architecture(facts)) or next(iter(references.values()))


def _image(recipe: Recipe) -> RecipeImage:
    assert recipe.image
    return recipe.image
