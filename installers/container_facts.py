"""Observe the state before a recipe's container is created: engine, image, container, and its packages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from envcheck.collect.answer_sources import has_simulated_engine
from envcheck.collect.answer_sources import local_machine as this_machine
from envcheck.core.errors import EnvcheckError, StepError, UsageError
from envcheck.core.facts import EngineFacts, Facts
from envcheck.core.messages import NOTHING, Message, _
from envcheck.job.card_ids import count_cards, select_card_ids
from envcheck.job.container_privileges import JobContainer, derive_container
from envcheck.job.local_facts import read_architecture
from envcheck.settings import site_access
from envcheck.settings.site_access import NO_SITE, SiteAccess, SiteMount
from installers.bundle import offline
from installers.bundle.sources import Supply
from installers.containers import lifecycle, path_kinds
from installers.containers.compare import ContainerAction, ContainerStatus, FieldDifference, decide_action
from installers.containers.container_options import ContainerOptions
from installers.containers.host_paths import ContainerPlan, plan_container
from installers.images import (
    docker_engine,
    engine_lookup,
    local_image,
    pull_resume,
    reference,
    registry,
    simulated_engine,
)
from installers.images.docker_engine import DockerEngine
from installers.images.engine_problems import EngineProblem
from installers.images.local_image import LocalImage
from installers.images.manifest import ResolvedImage
from installers.plan import host_facts
from installers.recipes.container_spec import read_site_label
from installers.recipes.recipe import Mount, Recipe, RecipeImage
from installers.software import sources
from installers.software.builds import BuildSite
from installers.state import state_file as mark
from installers.steps.container_state import ContainerState
from installers.targets.exec_target import ContainerTarget

if TYPE_CHECKING:
    import docker

AGAIN_S = 5.0  # timeout of a registry for an image that the engine already has


def observe_container(
    recipe: Recipe, folder: Path, wish: ContainerOptions, facts: Facts, role: str = "", supply: Supply | None = None
) -> ContainerState:
    """Return the state of the recipe's container; changes nothing.

    Without an engine the container is planned too, so that it can be shown.  A container created with the options of
    the published document keeps them until it is recreated.
    """
    remembered = not wish.recreate and mark.is_as_published(folder)
    wish = replace(wish, as_published=wish.as_published or remembered)
    seen = _observe_engine(recipe, folder, wish, facts, role, supply)
    folders = seen.drawn.folders
    known = host_facts.read_facts(folder, (), folders)
    of_root, closed = (tuple(each for each in folders if each in some) for some in (known.of_root, known.closed))
    return replace(seen, of_root=of_root, closed=closed)


def _observe_engine(
    recipe: Recipe, folder: Path, wish: ContainerOptions, facts: Facts, role: str, supply: Supply | None
) -> ContainerState:
    simulated = has_simulated_engine()
    host = simulated_engine.inspect_simulated_engine(facts) if simulated else docker_engine.inspect_engine()
    ours = mark.load_state(folder)
    if host.problem or simulated:
        return ContainerState(
            host,
            ours,
            recipe.interpreter,
            _derive_plan(recipe, wish, facts, _published_name(recipe, facts), supply),
            simulated=simulated,
        )
    client = docker_engine.open_client(host)
    try:
        supply = supply or Supply(recipe, site=_read_container_site(recipe, client))
        return _observe_with_engine(recipe, folder, wish, facts, client, host, role, supply)
    finally:
        client.close()


def _observe_with_engine(
    recipe: Recipe,
    folder: Path,
    wish: ContainerOptions,
    facts: Facts,
    client: docker.DockerClient,
    host: DockerEngine,
    role: str,
    supply: Supply,
) -> ContainerState:
    found, problem, name = None, None, _published_name(recipe, facts)
    there, moved, unasked = None, "", ""
    try:
        if supply.bundle:
            there, name = _find_bundle_image(client, supply, host)
        else:
            names = reference.list_candidates(_require_image(recipe), host.architecture, wish.registries)
            there = local_image.find_named(client, names, host)
            if there is None:
                found = registry.resolve_image(
                    names, host, local_image.registry_credentials(client), ask=engine_lookup.make_lookup(client, host)
                )
                there = local_image.find_resolved(client, found)
            elif _must_create(recipe, wish, client):
                found, unasked = _check_moved_tag(names, there, host, client)
                there, moved = (None, there.image_id) if found else (there, "")
            name = _pinned_name(names[0], there, found)
    except EnvcheckError as err:
        problem = EngineProblem("image", err.message, err.next_step)
    facts = replace(facts, engine=EngineFacts(host.version, host.runtimes, cdi=host.cdi))  # the engine that is used
    drawn = _derive_plan(recipe, _keep_start_folder(recipe, wish, client), facts, name, supply)
    stands = _compare_container(client, drawn, moved, wish) if there or moved else None
    target = ContainerTarget(client.api, drawn.spec.name, recipe.interpreter, folder, supply.site)
    running = stands is not None and stands.action is ContainerAction.REUSE
    return ContainerState(
        engine=host,
        mark=mark.load_state(folder),
        interpreter=recipe.interpreter,
        drawn=drawn,
        found=found,
        here=there,
        image_problem=problem,
        moved=moved,
        unasked=unasked,
        room=None if there or problem else _check_space(found, host, supply, client),
        standing=stands,
        environment=target.read_environment() if running else None,
        sources=sources.inspect_if_possible(recipe, BuildSite(target, supply=supply), role)
        if running and recipe.checkouts
        else sources.sources_from_lock(recipe, supply, role),
    )


def _must_create(recipe: Recipe, wish: ContainerOptions, client: docker.DockerClient) -> bool:
    """Return whether a container will be created; an existing one keeps its image, so no registry is queried."""
    assert recipe.container
    return wish.recreate or lifecycle.inspect_container(client.api, recipe.container.name) is None


def _compare_container(
    client: docker.DockerClient, drawn: ContainerPlan, moved: str, wish: ContainerOptions
) -> ContainerStatus:
    """Compare the container with the plan; with an image that is not pulled yet, only the image can be compared."""
    if not moved:
        return lifecycle.read_status(client.api, drawn.spec, recreate=wish.recreate)
    now = decide_action(lifecycle.inspect_container(client.api, drawn.spec.name), drawn.spec, recreate=True)
    if now.action in (ContainerAction.CREATE, ContainerAction.REFUSE):
        return now
    return ContainerStatus(ContainerAction.RECREATE, (FieldDifference("image", drawn.spec.image, moved),))


def _check_moved_tag(
    names: Sequence[reference.ImageReference], there: LocalImage, host: DockerEngine, client: docker.DockerClient
) -> tuple[ResolvedImage | None, Message]:
    """Return the other image that the tag refers to now, None if it is unchanged; and why this cannot be checked.

    There is one attempt of a few seconds, because the local image can be used.  Images from no registry are skipped.
    """
    own = next(each for each in names if str(each) in there.names)
    if own.digest or not there.digest:
        return None, NOTHING
    try:
        found = registry.resolve_image(
            [own],
            host,
            local_image.registry_credentials(client),
            read_s=AGAIN_S,
            attempts=1,
            ask=engine_lookup.make_lookup(client, host),
        )
    except StepError as err:
        return None, err.message
    same = bool({there.image_id, there.digest} & {found.image_id, found.digest, found.list_digest})
    return None if same else found, NOTHING


def _keep_start_folder(recipe: Recipe, wish: ContainerOptions, client: docker.DockerClient) -> ContainerOptions:
    """Return the options with the start folder of the existing container.

    Otherwise its mounts would differ in another working directory, and recreating it would lose its content.
    """
    there = (
        lifecycle.inspect_container(client.api, recipe.container.name)
        if recipe.container and not wish.recreate
        else None
    )
    mounted = {m.get("Destination"): str(m.get("Source") or "") for m in (there or {}).get("Mounts") or ()}
    for mount in recipe.container.mounts if recipe.container else ():
        source = mounted.get(mount.target, "")
        if not mount.source.startswith("/") and source:
            above = len(Path(mount.source).parts)
            return replace(wish, start=Path(source).parents[above - 1] if above else Path(source))
    return wish


def _find_bundle_image(
    client: docker.DockerClient, supply: Supply, host: DockerEngine
) -> tuple[LocalImage | None, str]:
    """Return the bundle's image if the engine has it, and its name: with the digest if it has one, else its id."""
    assert supply.bundle and supply.bundle.image
    if supply.bundle.image.architecture != host.architecture:
        why = _(
            "{name} was built for {architecture}; the container engine runs on {engine_architecture}",
            name=supply.name,
            architecture=supply.bundle.image.architecture,
            engine_architecture=host.architecture,
        )
        raise UsageError(
            why,
            _(
                "run `envcheck bundle --arch {architecture}` on a machine with network access",
                architecture=host.architecture,
            ),
        )
    there = offline.find_loaded_image(client, supply)
    if there is None:
        return None, supply.bundle.image.id
    pulled = [str(name) for name in there.get("RepoDigests") or ()]
    digest = supply.lock.image.digest if supply.lock and supply.lock.image else ""
    known = next((name for name in pulled if digest and name.endswith(f"@{digest}")), "")
    return LocalImage(str(there["Id"]), digest if known else "", host.architecture), known or str(there["Id"])


def _check_space(
    found: ResolvedImage | None, host: DockerEngine, supply: Supply, client: docker.DockerClient
) -> EngineProblem | None:
    if supply.bundle:
        return offline.check_engine_space(supply, host)
    return local_image.check_space(found, host, pull_resume.count_kept_layers(client, found)) if found else None


def _derive_plan(
    recipe: Recipe, wish: ContainerOptions, facts: Facts, name: str, supply: Supply | None
) -> ContainerPlan:
    architecture = read_architecture(facts)
    ids = wish.cards or select_card_ids(recipe, facts, recipe.device, count_cards(recipe, recipe.device))
    found = derive_container(
        recipe,
        facts,
        recipe.device,
        ids,
        architecture,
        str(wish.start),
        as_published=wish.as_published,
        only=bool(wish.cards),
    )
    assert found
    found = _add_site(found, supply.site if supply else NO_SITE)
    return plan_container(recipe, found, name, path_kinds.observe_paths(found, this_machine()))


def _add_site(found: JobContainer, site: SiteAccess) -> JobContainer:
    """Return the container with the site's mounts and variables; a mount that the recipe has already is one of both."""
    taken = {(mount.source, mount.target) for mount in found.spec.mounts}
    offered = (Mount(m.source, m.target, m.read_only) for m in site_access.list_container_mounts(site))
    more = tuple(mount for mount in offered if (mount.source, mount.target) not in taken)
    variables = {**found.spec.environment, **site.environment}
    names = (*(mount.target for mount in more), *site.environment)
    spec = replace(found.spec, mounts=(*found.spec.mounts, *more), environment=variables, site=names)
    return replace(found, spec=spec)


def _read_container_site(recipe: Recipe, client: docker.DockerClient) -> SiteAccess:
    """Return what the container has of the site's settings with which it was created.

    Commands that only use the container, such as train, do not know these settings, which may be of another user.
    """
    assert recipe.container
    there = lifecycle.inspect_container(client.api, recipe.container.name) or {}
    config = there.get("Config") or {}
    names = read_site_label(config.get("Labels") or {})
    mounts = tuple(
        SiteMount(str(m["Source"]), str(m["Destination"]), not m.get("RW", True))
        for m in there.get("Mounts") or ()
        if m.get("Destination") in names
    )
    pairs = (text.partition("=") for text in config.get("Env") or ())
    return SiteAccess(mounts=mounts, environment={name: value for name, _unused, value in pairs if name in names})


def _pinned_name(first: reference.ImageReference, there: LocalImage | None, found: ResolvedImage | None) -> str:
    """Return the name with digest, the same before and after the pull.

    An image from no registry, or one that the engine has only under another name, is named by its id.
    """
    if found:
        return (
            str(found.pinned_reference)
            if there is None or str(found.pinned_reference) in there.names
            else there.image_id
        )
    assert there
    return str(reference.pin_reference(first, there.digest)) if there.digest else there.image_id


def _published_name(recipe: Recipe, facts: Facts) -> str:
    references = _require_image(recipe).references
    return references.get(read_architecture(facts)) or next(iter(references.values()))


def _require_image(recipe: Recipe) -> RecipeImage:
    assert recipe.image
    return recipe.image
